#include <cmath>
#include <filesystem>

#include "common/file.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "model/merge/circuit_rows.h"
#include "model/merge/export.h"
#include "model/merge/merged_model.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
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
  ExportOptions Options() const {
    ExportOptions options;
    options.token_text = [](int32_t id) { return fmt::format("<|test_{}|>", id); };
    options.done_id = 63;
    return options;
  }
  // A whole tensor, [rows][row_size].
  static std::vector<std::vector<float>> Read(const TensorSource& source, const std::string& name) {
    for (const TensorSpec& spec : source.tensors()) {
      if (spec.name != name) continue;
      std::vector<std::vector<float>> out(spec.rows(), std::vector<float>(spec.row_size()));
      for (int64_t row = 0; row < spec.rows(); ++row) EXPECT_TRUE(source.ReadRows(spec, row, 1, out[row].data()).ok());
      return out;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
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
  const double s = std::sqrt(static_cast<double>(circuit_.hidden()) / circuit_.base_hidden);
  const int64_t h0 = circuit_.base_hidden;

  const auto out = Read(*base_, "layers.0.linear_attn.out_proj.weight");
  const auto merged_out = Read(*model, "layers.2.linear_attn.out_proj.weight");
  EXPECT_EQ(merged_out[7][300], static_cast<float>(out[7][300] * s));
  EXPECT_THAT(merged_out[h0], Each(0.0f));

  const auto norm = Read(*base_, "layers.1.input_layernorm.weight"),
             merged = Read(*model, "layers.3.input_layernorm.weight");
  EXPECT_NEAR((1 + merged[5][0]) * s, 1 + norm[5][0], 1e-6);
  EXPECT_EQ(merged[h0][0], -1);

  const auto final_norm = Read(*base_, "norm.weight"), merged_final = Read(*model, "norm.weight");
  EXPECT_NEAR((1 + merged_final[5][0]) * s * s, 1 + final_norm[5][0], 1e-5);  // tied head

  const auto gate = Read(*base_, "layers.1.mlp.gate_proj.weight"),
             merged_gate = Read(*model, "layers.3.mlp.gate_proj.weight");
  EXPECT_TRUE(std::equal(gate[3].begin(), gate[3].end(), merged_gate[3].begin()));
  EXPECT_EQ(std::count(merged_gate[3].begin() + h0, merged_gate[3].end(), 0.0f), circuit_.width);
  EXPECT_THAT(merged_gate[gate.size()], Each(0.0f));
}

TEST_F(Merge, SharedKeyHeadsAreCopiedToTheirValueHeads) {
  const auto model = MergedModel::Create(circuit_, base_).value();
  const auto base = Read(*base_, "layers.0.linear_attn.in_proj_qkv.weight");
  const auto merged = Read(*model, "layers.2.linear_attn.in_proj_qkv.weight");
  ASSERT_EQ(base.size(), (2u + 2 + 4) * 128);
  ASSERT_EQ(merged.size(), (4u + 4 + 4) * 128);
  const auto same = [&](size_t merged_row, size_t base_row) {
    return std::equal(base[base_row].begin(), base[base_row].end(), merged[merged_row].begin());
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
  const auto qkv = Read(*model, "layers.0.linear_attn.in_proj_qkv.weight");
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
  const auto down = Read(*model, "layers.0.mlp.down_proj.weight");
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
    for (const auto& row : Read(*model, spec.name)) {
      for (float value : row) sum += std::abs(value);
    }
    for (const auto& row : Read(*narrow, spec.name)) {
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

TEST_F(Merge, ExportIsTheMergedModelAndItsManifestIsTrue) {
  ExportOptions options = Options();
  options.shard_bytes = 1 << 20;
  uint64_t done = 0, total = 0;
  options.progress = [&](uint64_t d, uint64_t t) { done = d, total = t; };
  const std::string out = directory_ + "/out";
  const absl::Status status = ExportDense(circuit_, directory_ + "/base", out + "/", options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(done, total);
  EXPECT_GT(total, uint64_t{4} << 20);

  const auto exported = Checkpoint::Open(out).value();
  const auto model = MergedModel::Create(circuit_, base_).value();
  EXPECT_EQ(exported->shape(), model->shape());
  for (const TensorSpec& spec : model->tensors())
    EXPECT_EQ(Read(*exported, spec.name), Read(*model, spec.name)) << spec.name;

  const json manifest = json::parse(ReadFile(out + "/qgpu_manifest.json").value());
  EXPECT_EQ(manifest["circuit"], CircuitHash(circuit_));
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    const std::string name = entry.path().filename();
    if (name == "qgpu_manifest.json") continue;
    ++files;
    EXPECT_EQ(manifest["files"][name]["sha256"], Sha256Hex(ReadFile(entry.path()).value())) << name;
    EXPECT_EQ(manifest["files"][name]["bytes"], entry.file_size()) << name;
  }
  EXPECT_EQ(files, static_cast<int64_t>(manifest["files"].size()));
  EXPECT_EQ(json::parse(ReadFile(out + "/generation_config.json").value())["eos_token_id"], json({256, 512 + 63}));

  EXPECT_EQ(ExportDense(circuit_, directory_ + "/base", out, options).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(Merge, FailedExportLeavesNothingBehind) {
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/base/tokenizer.json", "{}").ok());
  const absl::Status status = ExportDense(circuit_, directory_ + "/base", directory_ + "/out", Options());
  EXPECT_THAT(std::string(status.message()), HasSubstr("base/tokenizer.json"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);  // the base only
  EXPECT_FALSE(ExportDense(circuit_, directory_ + "/none", directory_ + "/out", Options()).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/out"));
}

TEST(AddTokens, RefusesClashes) {
  const std::string tokenizer = R"({"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":2,"content":"<s>"}]})";
  const auto error = [&](int64_t first, const std::vector<std::string>& texts) {
    auto merged = AddTokens(tokenizer, first, texts);
    return merged.ok() ? "added" : std::string(merged.status().message());
  };
  EXPECT_EQ(error(3, {"x", "y"}), "added");
  EXPECT_EQ(error(8, {"x"}), "added");
  EXPECT_THAT(error(2, {"x"}), HasSubstr("no id below 2"));
  EXPECT_THAT(error(1, {"x"}), HasSubstr("\"b\" has id 1"));
  EXPECT_THAT(error(3, {"<s>"}), HasSubstr("\"<s>\" is taken"));
  EXPECT_THAT(error(3, {"x", "x"}), HasSubstr("taken"));
  const json merged = json::parse(AddTokens(tokenizer, 8, {"x", "y"}).value());
  EXPECT_EQ(merged["model"]["vocab"]["y"], 9);
  EXPECT_EQ(merged["added_tokens"][2]["content"], "y");
  EXPECT_EQ(merged["added_tokens"][2]["id"], 9);
}

}  // namespace
}  // namespace qgpu
