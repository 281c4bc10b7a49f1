#include <cmath>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "model/merge/circuit_rows.h"
#include "model/merge/merged_model.h"
#include "model/merge/read_tensor.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ModelShape BaseShape(int64_t hidden) {
  ModelShape shape = EmbeddedBaseShape();
  shape.hidden = hidden;
  shape.intermediate = 40;
  shape.layers = {LayerType::kLinearAttention, LayerType::kFullAttention};
  shape.linear_key_heads = 2;
  shape.linear_value_heads = 4;  // more than the circuit's heads, and keys shared by pairs
  return shape;
}

class Merge : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "/qgpu_merge_test_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    circuit_ = WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .heads = 3}, 1));
    WriteBase(BaseShape(circuit_.base_hidden));
  }
  void WriteBase(const ModelShape& shape) {
    std::filesystem::remove_all(directory_ + "/base");
    ASSERT_TRUE(WriteRandomBase(directory_ + "/base", shape, 9, StoredType::kFloat32).ok());
    base_ = Checkpoint::Open(directory_ + "/base").value();
  }
  std::string ErrorOf(const Circuit& circuit) const {
    auto model = MergedModel::Create(circuit, base_);
    return model.ok() ? "merged" : std::string(model.status().message());
  }

  std::string directory_;
  Circuit circuit_;
  std::shared_ptr<const Checkpoint> base_;
};

TEST_F(Merge, UniformShapeTakesTheWiderOfBoth) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const ModelShape& shape = model->shape();
  EXPECT_EQ(shape.hidden, circuit_.base_hidden + circuit_.width);
  EXPECT_EQ(shape.linear_value_heads, 4);
  EXPECT_EQ(shape.linear_key_heads, 4);
  EXPECT_EQ(shape.intermediate, circuit_.layers.back().neurons + 1);  // and the neuron that clears the flag
  EXPECT_EQ(shape.layers.size(), 4u);
  EXPECT_EQ(shape.vocabulary, 512 + 64);
}

TEST_F(Merge, BaseRowsAreScaledAndPadded) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const TextScaling& scaling = model->scaling();
  const double gain = std::sqrt(static_cast<double>(circuit_.base_hidden) / circuit_.hidden());
  const int64_t h0 = circuit_.base_hidden;
  EXPECT_EQ(scaling.norm_gain, gain);

  const auto out = ReadTensor(*base_, "layers.0.linear_attn.out_proj.weight");
  const auto merged_out = ReadTensor(*model, "layers.2.linear_attn.out_proj.weight");
  EXPECT_EQ(merged_out[7][300], static_cast<float>(out[7][300] * scaling.residual));
  EXPECT_THAT(merged_out[h0], Each(0.0f));

  const double shift = std::exp2(scaling.layers[1].post);
  const auto norm = ReadTensor(*base_, "layers.1.post_attention_layernorm.weight"),
             merged = ReadTensor(*model, "layers.3.post_attention_layernorm.weight");
  EXPECT_NEAR((1 + merged[5][0]) / gain / shift, 1 + norm[5][0], 1e-6);
  EXPECT_EQ(merged[h0][0], -1);
  const auto gate = ReadTensor(*base_, "layers.1.mlp.gate_proj.weight"),
             merged_gate = ReadTensor(*model, "layers.3.mlp.gate_proj.weight");
  for (int64_t i = 0; i < h0; ++i) ASSERT_EQ(merged_gate[3][i] * shift, gate[3][i]);
  EXPECT_EQ(std::count(merged_gate[3].begin() + h0, merged_gate[3].end(), 0.0f), circuit_.width);
  EXPECT_THAT(merged_gate[gate.size()], Each(0.0f));
}

// The product of head, last norm and embedding is the base's, whether the head stays tied or not.
TEST_F(Merge, HeadAndLastNormMakeUpForTheScale) {
  for (const bool wide : {false, true}) {  // a narrow base's last norm would be too small to be stored well
    if (wide) WriteBase(BaseShape(512));
    circuit_.base_hidden = static_cast<int32_t>(base_->shape().hidden);
    const auto model = MergedModel::Create(circuit_, base_).value();
    const double gain = std::sqrt(static_cast<double>(circuit_.base_hidden) / circuit_.hidden());
    EXPECT_EQ(model->shape().tied_head, wide);
    const auto last = ReadTensor(*base_, "norm.weight"), embedding = ReadTensor(*base_, "embed_tokens.weight");
    const auto merged_last = ReadTensor(*model, "norm.weight"),
               merged_embedding = ReadTensor(*model, "embed_tokens.weight");
    const auto head = wide ? merged_embedding : ReadTensor(*model, "lm_head.weight");
    EXPECT_NEAR((1 + merged_last[5][0]) * head[17][5] / gain, (1 + last[5][0]) * embedding[17][5], 1e-6);
    EXPECT_EQ(merged_embedding[17][5], static_cast<float>(embedding[17][5] * model->scaling().residual));
  }
}

TEST(NormRounding, IsLargeWhereOnePlusWIsSmall) {
  const std::vector<float> weights = {0.01f, -0.03f, 0.05f, 0.0701f, -0.11f};
  EXPECT_LT(NormRoundingError(weights, 1), 0x1p-11);
  EXPECT_GT(NormRoundingError(weights, 0.1), 0x1p-8);
  EXPECT_EQ(NormRoundingError({-1, 0, 1}, 1), 0);
}

// Nothing else that text rows hold beside the base's values: the flag and the filler, of the energy that makes the
// norm's epsilon weigh as in the base.
TEST_F(Merge, TextRowsHoldTheFillerThatKeepsTheEpsilon) {
  const Circuit circuit = WithUnusedDimensions(circuit_, 900);
  const auto model = MergedModel::Create(circuit, base_).value();
  const auto row = ReadTensor(*model, "embed_tokens.weight")[17];
  double energy = 0;
  for (int64_t i = circuit.base_hidden; i < circuit.hidden(); ++i) energy += double{row[i]} * row[i];
  const double s = model->scaling().residual, growth = s * s * circuit.base_hidden / circuit.hidden();
  EXPECT_EQ(std::exp2(std::round(std::log2(s))), s);
  EXPECT_GE(growth, 1);
  EXPECT_NEAR(energy / circuit.hidden() / (growth - 1) / base_->shape().norm_eps, 1, 1e-6);
}

TEST_F(Merge, SharedKeyHeadsAreCopiedToTheirValueHeads) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const auto base = ReadTensor(*base_, "layers.0.linear_attn.in_proj_qkv.weight");
  const auto merged = ReadTensor(*model, "layers.2.linear_attn.in_proj_qkv.weight");
  ASSERT_EQ(base.size(), (2u + 2 + 4) * 128);
  ASSERT_EQ(merged.size(), (4u + 4 + 4) * 128);
  const float shift = static_cast<float>(std::exp2(model->scaling().layers[0].input));
  const auto same = [&](size_t merged_row, size_t base_row) {
    return std::equal(base[base_row].begin(), base[base_row].end(), merged[merged_row].begin(),
                      [shift](float expected, float got) { return expected == got * shift; });
  };
  for (size_t head = 0; head < 4; ++head) {
    EXPECT_TRUE(same(head * 128 + 17, head / 2 * 128 + 17)) << "query of head " << head;
    EXPECT_TRUE(same((4 + head) * 128 + 17, (2 + head / 2) * 128 + 17)) << "key of head " << head;
    EXPECT_TRUE(same((8 + head) * 128 + 17, (4 + head) * 128 + 17)) << "value of head " << head;
  }
}

TEST_F(Merge, CircuitWeightsLieOnAddedDimensionsOnly) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const CircuitLayer& layer = circuit_.layers[0];
  const int64_t h0 = circuit_.base_hidden, channels = 4 * 128;
  const auto qkv = ReadTensor(*model, "layers.0.linear_attn.in_proj_qkv.weight");
  for (const auto& [matrix, block] : {std::pair(&layer.q, 0), {&layer.k, 1}, {&layer.v, 2}}) {
    double sum = 0, expected = 0;
    for (float value : matrix->value) expected += std::abs(value);
    for (int64_t row = block * channels; row < (block + 1) * channels; ++row) {
      for (float value : qkv[row]) sum += std::abs(value);
      EXPECT_EQ(std::count(qkv[row].begin(), qkv[row].begin() + h0, 0.0f), h0);
    }
    EXPECT_EQ(sum, expected);
    const int32_t row = matrix->row[100], col = matrix->col[100];
    EXPECT_EQ(qkv[block * channels + row][h0 + col], matrix->value[100]);
  }
  const auto down = ReadTensor(*model, "layers.0.mlp.down_proj.weight");
  EXPECT_EQ(down[h0 + layer.down.row[9]][layer.down.col[9]], layer.down.value[9]);
  for (int64_t row = 0; row < h0; ++row) EXPECT_THAT(down[row], Each(0.0f));
}

TEST_F(Merge, ReadingInPartsGivesTheSameRows) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  for (const TensorSpec& spec : model->tensors()) {
    std::vector<float> whole(spec.elements()), part(spec.elements());
    ASSERT_TRUE(model->ReadRows(spec, 0, spec.rows(), whole.data()).ok());
    for (int64_t row = 0; row < spec.rows(); row += 37) {
      ASSERT_TRUE(
          model->ReadRows(spec, row, std::min<int64_t>(37, spec.rows() - row), &part[row * spec.row_size()]).ok());
    }
    EXPECT_EQ(part, whole) << spec.name;
  }
}

TEST_F(Merge, WithoutPaddingOnlyZerosAreLeftOut) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const auto narrow = MergedModel::Create(circuit_, base_, Padding::kNone).value();
  int64_t elements = 0, narrow_elements = 0;
  for (const TensorSpec& spec : model->tensors()) elements += spec.elements();
  for (const TensorSpec& spec : narrow->tensors()) {
    narrow_elements += spec.elements();
    if (spec.name.ends_with("norm.weight") || spec.name.ends_with("conv1d.weight"))
      continue;  // padded with other values
    double sum = 0, narrow_sum = 0;
    for (const auto& row : ReadTensor(*model, spec.name)) {
      for (float value : row) sum += std::abs(value);
    }
    for (const auto& row : ReadTensor(*narrow, spec.name)) {
      for (float value : row) narrow_sum += std::abs(value);
    }
    EXPECT_EQ(narrow_sum, sum) << spec.name;
  }
  EXPECT_LT(narrow_elements, elements * 3 / 4);
}

TEST_F(Merge, RefusalsSayWhy) {
  EXPECT_EQ(ErrorOf(circuit_), "merged");
  Circuit reads_flag = circuit_;
  reads_flag.layers[1].q.col[3] = reads_flag.text_flag_dimension;
  EXPECT_THAT(ErrorOf(reads_flag), HasSubstr("layer 1 reads the text flag dimension"));
  Circuit no_constant = circuit_;
  for (float& value : no_constant.embedding.value) value *= 1.5f;
  EXPECT_THAT(ErrorOf(no_constant), HasSubstr("no constant dimension"));
  ModelShape narrow_heads = BaseShape(circuit_.base_hidden);
  narrow_heads.linear_value_dim = 64;
  WriteBase(narrow_heads);
  EXPECT_THAT(ErrorOf(circuit_), HasSubstr("128 x 64"));
}

}  // namespace
}  // namespace qgpu
