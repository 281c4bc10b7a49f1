// Which models are in memory, and what is refused because they would not fit.
#include "worker/model_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "model/base/random_base.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using Key = ModelPool::Key;

constexpr Key kFine = {ModelRole::kBase, DataType::kFloat32}, kCoarse = {ModelRole::kBase, DataType::kBFloat16},
              kText = {ModelRole::kTextPath, DataType::kFloat32}, kDense = {ModelRole::kDense, DataType::kFloat32};

class ModelPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base_ = fmt::format("{}/model_pool.{}", testing::TempDir(), getpid());
    ModelShape shape = EmbeddedBaseShape();
    Circuit circuit =
        WithFreeTextFlag(MakeDigitalCircuit({.layers = 1, .heads = 1, .base_hidden = 257, .bits = 14}, 5));
    circuit = WithUnusedDimensions(circuit, 768 - circuit.width);
    circuit.base_hidden = static_cast<int32_t>(shape.hidden);
    circuit_ = std::make_shared<const Circuit>(std::move(circuit));
    ASSERT_TRUE(WriteRandomBase(base_, shape, kEmbeddedBaseSeed).ok());
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  int64_t free_ = int64_t{1} << 40;
  std::string base_;
  std::shared_ptr<const Circuit> circuit_;
};

TEST_F(ModelPoolTest, WhatTwoRequestsShareIsNotLoadedAgain) {
  ModelPool pool(circuit_, "cpu", [this] { return free_; });
  ASSERT_TRUE(pool.Keep(base_, {kFine, kText}, 0).ok());
  const TextModel* fine = pool.Text(kFine).get();
  const std::weak_ptr<TextModel> text = pool.Text(kText);
  EXPECT_NE(fine, text.lock().get()) << "models of their own";
  ASSERT_TRUE(pool.Keep(base_, {kFine, kDense}, 0).ok());
  EXPECT_EQ(pool.Text(kFine).get(), fine);
  EXPECT_TRUE(text.expired()) << "what is not needed is freed";
  const std::weak_ptr<Conversation> dense = pool.Dense(DataType::kFloat32);
  ASSERT_TRUE(pool.Keep(base_, {kCoarse}, 0).ok());
  EXPECT_TRUE(dense.expired());
}

TEST_F(ModelPoolTest, TheModelThatLaunchesRunOnServesTextAsWell) {
  ModelPool other(circuit_, "cpu", [this] { return free_; });
  ASSERT_TRUE(other.Keep(base_, {kDense}, 0).ok());
  const std::shared_ptr<Conversation> hosted = other.Dense(DataType::kFloat32);
  ModelPool pool(circuit_, "cpu", [this] { return free_; });
  pool.Pin(DataType::kFloat32, hosted);
  ASSERT_TRUE(pool.Keep(base_, {kDense}, 0).ok());
  EXPECT_EQ(pool.Dense(DataType::kFloat32), hosted);
  ASSERT_TRUE(pool.Keep(base_, {kFine}, 0).ok());
  ASSERT_TRUE(pool.Keep(base_, {{ModelRole::kDense, DataType::kBFloat16}}, 0).ok());
  EXPECT_NE(pool.Dense(DataType::kBFloat16), hosted);
}

TEST_F(ModelPoolTest, WhatDoesNotFitIsRefusedBeforeItIsLoaded) {
  ModelPool pool(circuit_, "cpu", [this] { return free_; });
  ASSERT_TRUE(pool.Keep(base_, {kFine}, 0).ok());
  free_ = 1'000'000;
  const absl::Status refused = pool.Keep(base_, {kFine, kDense}, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the dense merged model in float32"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("free some"));
  EXPECT_TRUE(pool.Keep(base_, {kFine}, 0).ok()) << "it is there already";
  free_ = int64_t{1} << 40;
  EXPECT_TRUE(absl::IsResourceExhausted(pool.Keep(base_, {kFine, kDense}, free_))) << "what is computed counts as well";
  EXPECT_TRUE(pool.Keep(base_, {kFine, kDense}, 0).ok());
}

TEST_F(ModelPoolTest, ErrorsOfTheFilesAreThoseOfTheRequest) {
  ModelPool pool(circuit_, "cpu", [this] { return free_; });
  EXPECT_TRUE(absl::IsNotFound(pool.Keep(base_ + "/none", {kFine}, 0))) << pool.Keep(base_ + "/none", {kFine}, 0);
  EXPECT_TRUE(pool.Keep(base_, {kFine}, 0).ok());
}

}  // namespace
}  // namespace qgpu
