#include "model/base/random_base.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/file.h"
#include "common/prng.h"
#include "common/sha256.h"
#include "model/base/byte_tokenizer.h"

namespace qgpu {
namespace {

// How the elements of a tensor are drawn: mean plus a bell-shaped deviate of that standard deviation.
struct Spread {
  double mean = 0, deviation = 0;
};

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

// Weights of a size that keeps the residual near 1 and every gate, decay and write strength in the middle of its range,
// so that a mistake anywhere shows in the logits.
Spread SpreadOf(const std::string& name) {
  if (name == "embed_tokens.weight" || name == "lm_head.weight") return {0, 0.05};
  if (EndsWith(name, "linear_attn.norm.weight")) return {1, 0.1};
  if (EndsWith(name, "norm.weight")) return {0, 0.1};  // zero-centred norms
  if (EndsWith(name, "conv1d.weight")) return {0, 0.4};
  if (EndsWith(name, "dt_bias")) return {-2, 1};
  if (EndsWith(name, "A_log")) return {0, 0.7};
  return {0, 0.05};
}

// Draws by integer arithmetic and one multiplication each, so that no library and no compiler flag changes a bit.
class RandomTensors : public TensorSource {
 public:
  RandomTensors(const ModelShape& shape, uint64_t seed) : shape_(shape), seed_(seed) {}
  const ModelShape& shape() const override { return shape_; }

  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override {
    const Spread spread = SpreadOf(spec.name);
    const uint64_t tensor_seed = seed_ ^ std::stoull(Sha256Hex(spec.name).substr(0, 16), nullptr, 16);
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      SplitMix64 prng(tensor_seed + static_cast<uint64_t>(row) * 0xd1342543de82ef95ull);
      for (int64_t i = 0; i < spec.row_size(); ++i) {
        const double deviate = Deviate(prng.Next()) * (spread.deviation / kDeviateScale);
        *out++ = static_cast<float>(spread.mean) + static_cast<float>(deviate);
      }
    }
    return absl::OkStatus();
  }

 private:
  // The sum of four 16-bit uniforms, centred: close to normal, of this standard deviation (65536 / sqrt 3).
  static constexpr double kDeviateScale = 37837.2;
  static double Deviate(uint64_t bits) {
    const int64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return static_cast<double>(sum - 2 * 65535);
  }

  ModelShape shape_;
  uint64_t seed_;
};

absl::Status MakeDirectories(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::UnavailableError(fmt::format("cannot create {}: {}", directory, error.message()));
  return absl::OkStatus();
}

}  // namespace

ModelShape EmbeddedBaseShape() {
  ModelShape shape;
  shape.vocabulary = 512;
  shape.hidden = 256;
  shape.intermediate = 512;
  shape.layers = {LayerType::kLinearAttention, LayerType::kLinearAttention, LayerType::kLinearAttention,
                  LayerType::kFullAttention};
  shape.attention_heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 64;
  shape.rope_theta = 1e7;
  shape.linear_key_heads = 2;
  shape.linear_value_heads = 2;
  shape.linear_key_dim = 128;
  shape.linear_value_dim = 128;
  shape.tied_head = true;
  return shape;
}

absl::Status WriteRandomBase(const std::string& directory, const ModelShape& shape, uint64_t seed, StoredType type) {
  if (shape.vocabulary < kByteTokenizerSize) {
    return absl::InvalidArgumentError(fmt::format("a vocabulary of {} is smaller than the byte-level tokenizer's {}",
                                                  shape.vocabulary, kByteTokenizerSize));
  }
  QGPU_RETURN_IF_ERROR(MakeDirectories(directory));
  const std::string type_name = type == StoredType::kFloat32 ? "float32" : "bfloat16";
  absl::StatusOr<std::string> digest =
      WriteTensors(RandomTensors(shape, seed), ModelTensors(shape), type, directory + "/model.safetensors");
  QGPU_RETURN_IF_ERROR(digest.status());
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(directory + "/tokenizer.json", ByteTokenizerJson()));
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(directory + "/tokenizer_config.json", ByteTokenizerConfigJson()));
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(directory + "/generation_config.json",
                                           fmt::format("{{\n  \"eos_token_id\": {}\n}}\n", kByteTokenizerEndOfText)));
  return WriteFileAtomically(directory + "/config.json", ModelShapeToConfig(shape, type_name, kByteTokenizerEndOfText));
}

std::string BaseCacheDirectory() {
  for (const auto& [variable, below] :
       {std::pair{"QGPU_CACHE", ""}, {"XDG_CACHE_HOME", "/qgpu"}, {"HOME", "/.cache/qgpu"}}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return std::string(value) + below;
  }
  return (std::filesystem::temp_directory_path() / "qgpu").string();
}

absl::StatusOr<std::string> EmbeddedBase(const std::string& cache_directory) {
  namespace fs = std::filesystem;
  const ModelShape shape = EmbeddedBaseShape();
  const std::string identity = Sha256Hex(
      fmt::format("{} {} {}", kEmbeddedBaseSeed, ModelShapeToConfig(shape, "bfloat16", 0), ByteTokenizerJson()));
  const std::string directory = fmt::format("{}/random-base-{}", cache_directory, identity.substr(0, 12));
  std::error_code error;
  if (fs::exists(directory + "/config.json", error)) return directory;

  const std::string partial = fmt::format("{}.partial-{}", directory, getpid());
  fs::remove_all(partial, error);
  absl::Status status = WriteRandomBase(partial, shape, kEmbeddedBaseSeed);
  if (status.ok()) {
    fs::rename(partial, directory, error);
    // Another process may have been first; its result is the same.
    if (error && !fs::exists(directory + "/config.json")) {
      status = absl::UnavailableError(fmt::format("cannot rename {} to {}: {}", partial, directory, error.message()));
    }
  }
  fs::remove_all(partial, error);
  QGPU_RETURN_IF_ERROR(status);
  return directory;
}

}  // namespace qgpu
