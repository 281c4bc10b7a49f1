#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "common/prng.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/checkpoint.h"
#include "model/base/random_base.h"
#include "model/base/small_shape.h"
#include "model/base/stored_type.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string TestDirectory() {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = testing::TempDir() + "/qgpu_base_test_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// A safetensors file's bytes: `header` as given, then `data_bytes` zeros.
std::string FileBytes(const std::string& header, size_t data_bytes) {
  const uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string ParseErrorOf(const std::string& header, size_t data_bytes) {
  const std::string bytes = FileBytes(header, data_bytes);
  auto tensors = ParseSafetensors(bytes, "f");
  if (tensors.ok()) return "accepted";
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensors.status().message());
}

TEST(StoredType, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);            // tie, to even
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);  // tie, to even upwards
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1.8p-8f), 0x3f81);
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) EXPECT_EQ(FloatToBFloat16(BFloat16ToFloat(bits)), bits);
}

TEST(StoredType, HalfKnownValues) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(Safetensors, RefusesEveryMalformedHeader) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(ParseErrorOf(good, 8), "accepted");
  EXPECT_THAT(ParseErrorOf(good, 7), HasSubstr("truncated"));
  EXPECT_THAT(ParseErrorOf(good, 9), HasSubstr("bytes after the last tensor"));
  EXPECT_THAT(ParseErrorOf(R"([1])", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(ParseErrorOf(R"({"a":3})", 0), HasSubstr("tensor a"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), HasSubstr("unknown dtype"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), HasSubstr("do not fit"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), HasSubstr("dimension"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), HasSubstr("ascending"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904,16],)"
                           R"("data_offsets":[0,0]}})",
                           0),
              HasSubstr("larger than any file"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                           12),
              HasSubstr("overlap"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), HasSubstr("unclaimed"));
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                           8),
              HasSubstr("given twice"));
  EXPECT_EQ(ParseErrorOf(R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3), "accepted");
  EXPECT_THAT(ParseErrorOf(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2), HasSubstr("whole bytes"));
  EXPECT_THAT(ParseErrorOf("{\"a\":" + std::string(100'000, '['), 0), HasSubstr("not valid JSON"));
  std::string huge = FileBytes(good, 8);
  huge[7] = 0x7f;
  EXPECT_FALSE(ParseSafetensors(huge, "f").ok());
  EXPECT_FALSE(ParseSafetensors("short", "f").ok());
}

// Damages a good file at random: whatever is accepted must lie inside the file.
TEST(Safetensors, RandomDamageNeverReachesOutsideTheFile) {
  const std::string good = FileBytes(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                     R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})",
                                     32);
  SplitMix64 prng(7);
  int accepted = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = good;
    for (uint32_t change = 0; change <= prng.Below(3); ++change) {
      bytes[prng.Below(bytes.size())] = static_cast<char>(prng.Below(4) == 0 ? prng.Below(256) : '0' + prng.Below(10));
    }
    auto tensors = ParseSafetensors(bytes, "f");
    if (!tensors.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : *tensors) {
      ASSERT_GE(tensor.bytes, bytes.data());
      ASSERT_LE(tensor.bytes + tensor.size, bytes.data() + bytes.size());
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(ModelShape, ConfigRoundTripsFlatAndNested) {
  const ModelShape shape = SmallShape();
  const std::string text = ModelShapeToConfig(shape, "bfloat16", 256);
  EXPECT_EQ(ParseModelShape(text).value(), shape);
  json nested = {{"model_type", "qwen3_5"}, {"text_config", json::parse(text)}, {"tie_word_embeddings", true}};
  EXPECT_EQ(ParseModelShape(nested.dump()).value(), shape);  // the text model's own field decides
  nested["text_config"].erase("tie_word_embeddings");
  EXPECT_TRUE(ParseModelShape(nested.dump())->tied_head);
}

TEST(ModelShape, LayerTypesDefaultToEveryFourthFull) {
  json config = json::parse(ModelShapeToConfig(EmbeddedBaseShape(), "bfloat16", 256));
  config.erase("layer_types");
  EXPECT_EQ(ParseModelShape(config.dump()).value(), EmbeddedBaseShape());
}

TEST(ModelShape, RefusalsNameTheField) {
  const json good = json::parse(ModelShapeToConfig(SmallShape(), "bfloat16", 256));
  const auto error_with = [&](const char* key, json value) {
    json config = good;
    config[key] = std::move(value);
    auto shape = ParseModelShape(config.dump());
    return shape.ok() ? "accepted" : std::string(shape.status().message());
  };
  EXPECT_THAT(error_with("model_type", "llama"), HasSubstr("llama"));
  EXPECT_THAT(error_with("hidden_size", -1), HasSubstr("hidden_size"));
  EXPECT_THAT(error_with("hidden_size", "x"), HasSubstr("hidden_size"));
  EXPECT_THAT(error_with("hidden_size", 18446744073709551615ull), HasSubstr("hidden_size"));
  EXPECT_THAT(error_with("hidden_size", nullptr), HasSubstr("hidden_size must be an integer"));
  EXPECT_THAT(error_with("num_key_value_heads", 3), HasSubstr("multiple"));
  EXPECT_THAT(error_with("layer_types", json::array({"linear_attention"})), HasSubstr("layer_types"));
  EXPECT_THAT(error_with("layer_types", json::array({"linear_attention", "mamba"})), HasSubstr("mamba"));
  EXPECT_THAT(error_with("attention_bias", true), HasSubstr("bias"));
  EXPECT_THAT(error_with("hidden_act", "gelu"), HasSubstr("gelu"));
  EXPECT_THAT(error_with("rope_parameters", {{"rope_type", "yarn"}}), HasSubstr("yarn"));
  EXPECT_THAT(error_with("rope_parameters", {{"partial_rotary_factor", 0.3}}), HasSubstr("rotary"));
  EXPECT_THAT(error_with("rope_parameters", {{"type", "linear"}, {"factor", 2}}), HasSubstr("type is linear"));
  EXPECT_THAT(error_with("rope_scaling", {{"rope_type", "llama3"}}), HasSubstr("rope_scaling: rope_type is llama3"));
  EXPECT_THAT(error_with("rope_parameters", {{"full_attention", {{"rope_theta", 100}}}}), HasSubstr("each layer type"));
  EXPECT_THAT(error_with("rope_parameters", {{"rope_theta", nullptr}}), HasSubstr("rope_parameters: rope_theta must"));
  EXPECT_THAT(error_with("rope_parameters", json::array({1})), HasSubstr("rope_parameters must be an object"));
  EXPECT_THAT(error_with("rms_norm_eps", nullptr), HasSubstr("rms_norm_eps must be a number"));
  EXPECT_THAT(error_with("tie_word_embeddings", nullptr), HasSubstr("tie_word_embeddings must be true or false"));
  EXPECT_THAT(error_with("attn_output_gate", false), HasSubstr("attn_output_gate"));
  EXPECT_THAT(error_with("is_causal", false), HasSubstr("is_causal"));
  EXPECT_THAT(error_with("per_layer_config", json::object()), HasSubstr("per_layer_config"));
  EXPECT_THAT(error_with("quantization_config", {{"quant_method", "fp8"}}), HasSubstr("quantization_config"));
  EXPECT_FALSE(ParseModelShape("{").ok());
  EXPECT_FALSE(ParseModelShape("[]").ok());
}

// Where the reference library looks first, of the places that rotary settings can stand in.
TEST(ModelShape, RotarySettingsAreReadWhereTheReferenceReadsThem) {
  json bare = json::parse(ModelShapeToConfig(SmallShape(), "bfloat16", 256));
  bare.erase("rope_parameters");
  const auto settings = [&](const json& fields) {
    json config = bare;
    config.update(fields);
    const ModelShape shape = ParseModelShape(config.dump()).value();
    return std::pair(shape.rope_theta, shape.partial_rotary_factor);
  };
  const json inner = {{"rope_type", "default"}, {"rope_theta", 500}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(settings(json::object()), std::pair(10000.0, 0.25));
  EXPECT_EQ(settings({{"rope_theta", 700}, {"partial_rotary_factor", 1}}), std::pair(700.0, 1.0));
  EXPECT_EQ(settings({{"rope_parameters", inner}, {"rope_theta", 700}}), std::pair(500.0, 0.5));
  EXPECT_EQ(settings({{"rope_parameters", inner}, {"rope_theta", nullptr}}), std::pair(500.0, 0.5));
  EXPECT_EQ(settings({{"rope_parameters", {{"type", "default"}}}, {"rope_theta", 700}}), std::pair(700.0, 0.25));
  EXPECT_EQ(settings({{"rope_scaling", inner}}), std::pair(500.0, 0.5));
  EXPECT_EQ(settings({{"rope_scaling", {{"rope_theta", 900}}}, {"rope_parameters", inner}}), std::pair(900.0, 0.25));
  EXPECT_EQ(settings({{"rope_scaling", json::object()}, {"rope_parameters", inner}}), std::pair(500.0, 0.5));
  EXPECT_EQ(settings({{"rope_scaling", nullptr}, {"rope_parameters", nullptr}}), std::pair(10000.0, 0.25));
}

TEST(ModelShape, ANestedConfigNeedsNoModelTypeInside) {
  json inner = json::parse(ModelShapeToConfig(SmallShape(), "bfloat16", 256));
  inner.erase("model_type");
  EXPECT_EQ(ParseModelShape(json{{"model_type", "qwen3_5"}, {"text_config", inner}}.dump()).value(), SmallShape());
  const auto refused =
      ParseModelShape(json{{"text_config", inner}, {"quantization_config", {{"quant_method", "fp8"}}}}.dump());
  EXPECT_THAT(refused.status().message(), HasSubstr("quantization_config"));
}

// Damages a good config at random: whatever is accepted has a tensor list of sane sizes.
TEST(ModelShape, RandomDamageIsRefusedOrHarmless) {
  const std::string good = ModelShapeToConfig(SmallShape(), "bfloat16", 256);
  SplitMix64 random(11);
  int accepted = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string config = good;
    for (uint32_t change = 0; change <= random.Below(4); ++change) {
      const uint32_t at = random.Below(static_cast<uint32_t>(config.size()));
      const uint32_t kind = random.Below(3);
      if (kind == 0) config[at] = static_cast<char>(random.Below(256));
      if (kind == 1) config[at] = static_cast<char>('0' + random.Below(10));
      if (kind == 2) config.insert(at, 1 + random.Below(3), static_cast<char>('0' + random.Below(10)));
    }
    auto shape = ParseModelShape(config);
    if (!shape.ok()) continue;
    ++accepted;
    for (const TensorSpec& spec : ModelTensors(*shape)) ASSERT_GT(spec.elements(), 0) << config;
  }
  EXPECT_GT(accepted, 100);
}

TEST(RandomBase, IsTheSameOnEveryMachine) {
  const std::string directory = TestDirectory();
  ASSERT_TRUE(WriteRandomBase(directory, EmbeddedBaseShape(), kEmbeddedBaseSeed).ok());
  auto checkpoint = Checkpoint::Open(directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->shape(), EmbeddedBaseShape());
  EXPECT_EQ((*checkpoint)->StoredTypeName(), "bfloat16");
  // Pinned: a change here changes every figure that was measured on this base.
  EXPECT_EQ(Sha256Hex(ReadFile(directory + "/model.safetensors").value()),
            "3fa2a37650b5bb64e787e64cdd5dab040e76d60694b614038341db9d658d5fcb");
}

TEST(RandomBase, WeightsHaveTheIntendedSpread) {
  const std::string directory = TestDirectory();
  ASSERT_TRUE(WriteRandomBase(directory, SmallShape(), 3, StoredType::kFloat32).ok());
  auto checkpoint = Checkpoint::Open(directory).value();
  const TensorSpec spec = ModelTensors(SmallShape())[0];
  std::vector<float> values(spec.elements());
  ASSERT_TRUE(checkpoint->ReadRows(spec, 0, spec.rows(), values.data()).ok());
  double sum = 0, squares = 0;
  for (float value : values) sum += value, squares += double{value} * value;
  EXPECT_NEAR(sum / values.size(), 0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / values.size()), 0.05, 0.002);
  std::vector<float> part(2 * spec.row_size());
  ASSERT_TRUE(checkpoint->ReadRows(spec, 5, 2, part.data()).ok());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), values.begin() + 5 * spec.row_size()));
}

TEST(EmbeddedBase, IsWrittenOnceAndFoundAgain) {
  const std::string cache = TestDirectory();
  const std::string directory = EmbeddedBase(cache).value();
  const auto written = std::filesystem::last_write_time(directory + "/model.safetensors");
  EXPECT_EQ(EmbeddedBase(cache).value(), directory);
  EXPECT_EQ(std::filesystem::last_write_time(directory + "/model.safetensors"), written);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 1);  // no partial directory is left
}

}  // namespace
}  // namespace qgpu
