#include "model/forward/torch/test_models.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "model/base/random_base.h"

namespace qgpu {

Circuit WithFreeTextFlag(Circuit circuit) {
  circuit.text_flag_dimension = circuit.width++;
  --circuit.base_hidden;
  circuit.embedding.cols = circuit.width;
  circuit.final_norm.push_back(-1);
  for (CircuitLayer& layer : circuit.layers) {
    layer.input_norm.push_back(0);
    layer.post_norm.push_back(0);
    for (SparseMatrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.gate, &layer.up}) {
      matrix->cols = circuit.width;
    }
    layer.out.rows = layer.down.rows = circuit.width;
  }
  return circuit;
}

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
