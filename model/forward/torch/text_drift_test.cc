// Text in the dense form: the compiled layers leave it alone bit by bit, and what comes out is the base's distribution,
// in float32 to rounding and in bfloat16 with hardly more noise than the base has of its own.
#include <algorithm>
#include <cmath>

#include "ATen/ATen.h"
#include "common/prng.h"
#include "gtest/gtest.h"
#include "model/base/checkpoint.h"
#include "model/base/random_base.h"
#include "model/forward/torch/qwen_model.h"
#include "model/forward/torch/test_models.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/merged_model.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

using at::Tensor;

// The tests run beside others on few cores, and their products are small.
[[maybe_unused]] const bool kOneThread = (SetTorchThreads(1), true);

constexpr int64_t kPositions = 300;  // several chunks and a part of one
constexpr uint64_t kSeed = 5;

Tensor RandomText(int64_t count, int64_t vocabulary, uint64_t seed) {
  SplitMix64 random(seed);
  Tensor ids = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<int64_t>(random.Below(vocabulary));
  return ids;
}

class TextInTheDenseForm : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    circuit_ = WithFreeTextFlag(MakeDigitalCircuit({.base_hidden = 65, .id_bits = 8}, kSeed));
    ModelShape shape = SmallBaseShape(circuit_.base_hidden);
    shape.tied_head = GetParam();
    base_ = Checkpoint::Open(WriteTestBase(shape)).value();
    merged_ = MergedModel::Create(circuit_, base_).value();
  }
  std::unique_ptr<QwenModel> Load(const TensorSource& source, DataType type) {
    return QwenModel::Load(source, type, at::kCPU).value();
  }
  Circuit circuit_;
  std::shared_ptr<const Checkpoint> base_;
  std::unique_ptr<const MergedModel> merged_;
};
INSTANTIATE_TEST_SUITE_P(Heads, TextInTheDenseForm, testing::Bool(),
                         [](const auto& info) { return info.param ? "tied" : "untied"; });

TEST_P(TextInTheDenseForm, CompiledLayersChangeTheResidualByExactlyZero) {
  for (DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    auto model = Load(*merged_, type);
    model->keep_residuals = true;
    model->Forward(RandomText(kPositions, base_->shape().vocabulary, 1));
    model->Forward(RandomText(1, base_->shape().vocabulary, 2));  // and by the recurrent step
    const auto& residuals = model->residuals();
    ASSERT_EQ(residuals.size(), merged_->shape().layers.size() + 1);
    for (int64_t layer = 1; layer <= merged_->compiled_layers(); ++layer) {
      EXPECT_TRUE(at::equal(residuals[layer], residuals[0])) << DataTypeName(type) << " layer " << layer;
    }
    EXPECT_FALSE(at::equal(residuals.back(), residuals[0])) << "the base's layers should do something";
  }
}

// A base, and how many dimensions a circuit adds to it.
struct DriftCase {
  const char* name;
  int64_t hidden;
  bool tied;
  int32_t width;
  bool has_filler;       // whether the circuit leaves a dimension for it
  bool keeps_tied_head;  // of the merged model
};
constexpr DriftCase kDriftCases[] = {
    {"EmbeddedBase", 256, true, 1280, true, false},   {"WideTied", 512, true, 256, true, true},
    {"AsWideAsQwen2B", 2048, true, 1280, true, true}, {"WideUntied", 512, false, 256, true, false},
    {"FourTimesAsWide", 128, true, 384, true, false},  // s^2 H0 / H is 1, and the filler as good as 0
    {"NoFiller", 256, true, 0, false, true},           // s is no power of two
};

class Drift : public testing::TestWithParam<DriftCase> {
 protected:
  void SetUp() override {
    circuit_ = MakeDigitalCircuit({.layers = 2, .heads = 1, .base_hidden = 257, .bits = 14}, kSeed);
    circuit_ = WithFreeTextFlag(circuit_);
    if (GetParam().width > 0) circuit_ = WithUnusedDimensions(circuit_, GetParam().width - circuit_.width);
    if (!GetParam().has_filler) std::fill(circuit_.final_norm.begin(), circuit_.final_norm.end(), 0.0f);
    circuit_.base_hidden = static_cast<int32_t>(GetParam().hidden);
    ModelShape shape = EmbeddedBaseShape();
    shape.hidden = GetParam().hidden;
    shape.tied_head = GetParam().tied;
    const std::string directory = WriteTestBase(shape);
    ASSERT_TRUE(WriteRandomBase(directory, shape, kEmbeddedBaseSeed, StoredType::kBFloat16).ok());
    base_ = Checkpoint::Open(directory).value();
    merged_ = MergedModel::Create(circuit_, base_).value();
  }
  // Logarithms of probabilities over the whole vocabulary, double.
  static Tensor LogProbabilities(const TensorSource& source, DataType type, const Tensor& ids) {
    const auto model = QwenModel::Load(source, type, at::kCPU).value();
    return model->Logits(model->Forward(ids)).to(at::kDouble).log_softmax(-1);
  }
  static Tensor Kl(const Tensor& expected, const Tensor& got) { return (expected.exp() * (expected - got)).sum(-1); }

  Circuit circuit_;
  std::shared_ptr<const Checkpoint> base_;
  std::unique_ptr<const MergedModel> merged_;
};
INSTANTIATE_TEST_SUITE_P(Bases, Drift, testing::ValuesIn(kDriftCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(Drift, IsRoundingInFloat32AndTheBasesOwnNoiseInBFloat16) {
  EXPECT_EQ(merged_->scaling().filler_dimension >= 0, GetParam().has_filler);
  EXPECT_EQ(merged_->shape().tied_head, GetParam().keeps_tied_head);
  const int64_t vocabulary = base_->shape().vocabulary;
  const Tensor ids = RandomText(600, vocabulary, 3);
  const Tensor expected = LogProbabilities(*base_, DataType::kFloat32, ids);
  const Tensor exact = LogProbabilities(*merged_, DataType::kFloat32, ids);
  const Tensor rounded = LogProbabilities(*merged_, DataType::kBFloat16, ids);
  const Tensor noisy = LogProbabilities(*base_, DataType::kBFloat16, ids);
  const auto text = [&](const Tensor& log) { return log.slice(1, 0, vocabulary).log_softmax(-1); };
  const double kl = Kl(expected, text(exact)).mean().item<double>();
  const double worst = Kl(expected, text(exact)).abs().max().item<double>();
  const double in_bfloat16 = Kl(expected, text(rounded)).mean().item<double>();
  const double noise = Kl(expected, noisy).mean().item<double>();
  fmt::print("{}: mean KL {:.2e} in float32 (worst {:.2e}); {:.4e} in bfloat16, the base's own {:.4e}, {:.3f} times\n",
             GetParam().name, kl, worst, in_bfloat16, noise, in_bfloat16 / noise);
  EXPECT_LT(std::abs(kl), 1e-9);
  EXPECT_LT(worst, 1e-8);
  EXPECT_LT(in_bfloat16, (GetParam().has_filler ? 1.5 : 3.0) * noise);
  for (const Tensor& log : {exact, rounded}) {
    EXPECT_LT(log.exp().slice(1, vocabulary).sum(-1).max().item<double>(), 1e-9);
  }
}

}  // namespace
}  // namespace qgpu
