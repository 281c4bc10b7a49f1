// The shape of a Qwen3.5 text model, and the list of tensors that a checkpoint of that shape holds. Everything that
// reads, writes, merges or runs a model walks this one list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu {

// Of a config.json; a longer one is refused.
inline constexpr size_t kMaxConfigBytes = size_t{4} << 20;

enum class LayerType { kLinearAttention, kFullAttention };

struct ModelShape {
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;  // MLP width
  std::vector<LayerType> layers;

  int64_t attention_heads = 0, kv_heads = 0, head_dim = 0;  // full attention; attention_heads is a multiple of kv_heads
  double rope_theta = 10000;
  double partial_rotary_factor = 0.25;  // of head_dim; the rotary width is even

  int64_t linear_key_heads = 0, linear_value_heads = 0;  // value heads are a multiple of key heads
  int64_t linear_key_dim = 0, linear_value_dim = 0;
  int64_t conv_kernel = 4;

  double norm_eps = 1e-6;
  bool tied_head = false;  // the embedding is the output head as well
  int64_t max_positions = 32768;

  int64_t rotary_dim() const { return static_cast<int64_t>(head_dim * partial_rotary_factor); }
  int64_t linear_keys() const { return linear_key_heads * linear_key_dim; }
  int64_t linear_values() const { return linear_value_heads * linear_value_dim; }
  int64_t conv_channels() const { return 2 * linear_keys() + linear_values(); }
  bool operator==(const ModelShape&) const = default;
};

// Reads a Hugging Face config.json, flat (`qwen3_5_text`) or nested under `text_config` (`qwen3_5`). kInvalidArgument
// names the field that is missing, null, out of range, or asks for something else than Qwen3.5 does (another
// architecture, biases, an activation that is not silu, scaled rotary positions, quantised weights, attention that is
// not causal). Fields that change nothing about the text model are not looked at.
absl::StatusOr<ModelShape> ParseModelShape(std::string_view config_json);

// The config.json of a Qwen3_5ForCausalLM of that shape. `stored_type` is "float32" or "bfloat16"; `eos_token_id` is
// left out when negative.
std::string ModelShapeToConfig(const ModelShape& shape, std::string_view stored_type, int64_t eos_token_id);

// One tensor of a checkpoint, by its name without the leading "model." ("layers.0.mlp.up_proj.weight").
struct TensorSpec {
  std::string name;
  std::vector<int64_t> dims;  // row-major; dims[0] is what "row" means when a tensor is read in parts

  int64_t rows() const { return dims[0]; }
  int64_t row_size() const;
  int64_t elements() const { return rows() * row_size(); }
  bool operator==(const TensorSpec&) const = default;
};

// Every tensor of a model of that shape, in order: embedding, layers, final norm, then the head if it is not tied.
std::vector<TensorSpec> ModelTensors(const ModelShape& shape);

// "layers.3.": the prefix of a layer's tensor names.
std::string LayerPrefix(int64_t layer);

// Something that holds those tensors: a checkpoint, or one computed on the fly from a base and a circuit.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const ModelShape& shape() const = 0;
  // The tensors it holds, in the order of ModelTensors. A source may make layers narrower than shape() says (fewer
  // linear heads, fewer neurons, none at all); whoever runs it takes each layer's widths from here.
  virtual std::vector<TensorSpec> tensors() const { return ModelTensors(shape()); }
  // What a residual norm divides the sum of squares by: more than shape().hidden where the source leaves out residual
  // dimensions that are always 0.
  virtual int64_t norm_width() const { return shape().hidden; }
  // Rows [first_row, first_row + rows) of a tensor of tensors() as float32, row-major, into out[rows * row_size].
  // Thread-safe. Errors of the file behind it.
  virtual absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const = 0;
};

}  // namespace qgpu
