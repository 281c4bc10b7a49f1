#include "model/forward/torch/test_models.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "model/base/random_base.h"

namespace qgpu {

ModelShape SmallBaseShape(int64_t hidden) {
  ModelShape shape = EmbeddedBaseShape();
  shape.vocabulary = 300;
  shape.hidden = hidden;
  shape.intermediate = 96;
  shape.layers = {LayerType::kLinearAttention, LayerType::kFullAttention};
  shape.linear_key_heads = 1;
  return shape;
}

std::string WriteTestBase(const ModelShape& shape) {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = fmt::format("{}/qgpu_{}_{}", testing::TempDir(), info->test_suite_name(), info->name());
  std::replace(name.begin() + testing::TempDir().size() + 1, name.end(), '/', '_');
  std::filesystem::remove_all(name);
  EXPECT_TRUE(WriteRandomBase(name, shape, 5, StoredType::kFloat32).ok());
  return name;
}

}  // namespace qgpu
