#include "model/base/model_shape.h"

#include <cmath>
#include <limits>
#include <optional>

#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;

absl::Status ConfigError(const std::string& message) { return absl::InvalidArgumentError("config.json: " + message); }

// Reads fields of one JSON object, remembering the first thing that is wrong. A field that is null is wrong, not
// absent: the reference library takes null for something else than its default where it takes it at all.
class FieldReader {
 public:
  explicit FieldReader(const json& object) : object_(object) {}

  int64_t Integer(const char* key, int64_t lowest, int64_t highest, std::optional<int64_t> fallback = std::nullopt) {
    const json* value = Find(key);
    if (value == nullptr) return fallback ? *fallback : Missing(key);
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      return Fail(fmt::format("{} must be an integer", key));
    }
    const int64_t number = value->get<int64_t>();
    if (number < lowest || number > highest) {
      return Fail(fmt::format("{} is {}, outside {} to {}", key, number, lowest, highest));
    }
    return number;
  }

  double Number(const char* key, double lowest, double highest, double fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= lowest && number <= highest)) {
      Fail(fmt::format("{} must be a number from {} to {}", key, lowest, highest));
      return fallback;
    }
    return number;
  }

  bool Bool(const char* key, bool fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return Fail(fmt::format("{} must be true or false", key)) != 0;
    return value->get<bool>();
  }

  std::string Text(const char* key, const char* fallback) {
    const json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) {
      Fail(fmt::format("{} must be a string", key));
      return fallback;
    }
    return value->get<std::string>();
  }

  // The member, or nullptr when it is absent.
  const json* Find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  // The same for the fields that may be null, which is as if they were not there.
  const json* FindNullable(const char* key) const {
    const json* value = Find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  int64_t Fail(const std::string& message) {
    if (problem_.empty()) problem_ = message;
    return 0;
  }
  const std::string& problem() const { return problem_; }
  absl::Status status() const { return problem_.empty() ? absl::OkStatus() : ConfigError(problem_); }

 private:
  int64_t Missing(const char* key) { return Fail(fmt::format("{} is missing", key)); }

  const json& object_;
  std::string problem_;
};

constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxWidth = int64_t{1} << 24;  // of any dimension; products of two stay far inside int64_t

void ReadLayerTypes(FieldReader& fields, int64_t count, ModelShape& shape) {
  const json* types = fields.FindNullable("layer_types");
  if (types == nullptr) {
    const int64_t interval = fields.Integer("full_attention_interval", 1, kMaxLayers, 4);
    if (!fields.status().ok()) return;
    for (int64_t i = 0; i < count; ++i) {
      shape.layers.push_back((i + 1) % interval != 0 ? LayerType::kLinearAttention : LayerType::kFullAttention);
    }
    return;
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != count) {
    fields.Fail(fmt::format("layer_types must list num_hidden_layers = {} layers", count));
    return;
  }
  for (const json& type : *types) {
    const std::string name = PrintableName(type.is_string() ? type.get<std::string>() : type.dump());
    if (name != "linear_attention" && name != "full_attention") {
      fields.Fail("layer_types names an unknown layer type: " + name);
      return;
    }
    shape.layers.push_back(name == "full_attention" ? LayerType::kFullAttention : LayerType::kLinearAttention);
  }
}

// Newer files keep rotary settings in rope_parameters, older ones in rope_scaling (which the reference library prefers
// where it has members) and beside the other fields.
void ReadRotary(FieldReader& fields, ModelShape& shape) {
  static const json kNone = json::object();
  const char* name = "rope_scaling";
  const json* nested = fields.FindNullable(name);
  if (nested == nullptr || nested->empty()) nested = fields.FindNullable(name = "rope_parameters");
  if (nested == nullptr) nested = &kNone;
  if (!nested->is_object()) {
    fields.Fail(fmt::format("{} must be an object", name));
    return;
  }
  for (const auto& [key, value] : nested->items()) {
    if (!value.is_object()) continue;
    fields.Fail(fmt::format("{} has an object \"{}\"; settings for each layer type are not supported", name,
                            PrintableName(key)));
  }
  FieldReader rope(*nested);
  const char* type_key = rope.Find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string type = rope.Text(type_key, "default");
  if (type != "default") {
    fields.Fail(fmt::format("{}: {} is {}; only default is supported", name, type_key, PrintableName(type)));
  }
  const auto number = [&](const char* key, double lowest, double highest, double fallback) {
    return rope.Find(key) != nullptr ? rope.Number(key, lowest, highest, fallback)
                                     : fields.Number(key, lowest, highest, fallback);
  };
  shape.rope_theta = number("rope_theta", 1, 1e12, 10000);
  shape.partial_rotary_factor = number("partial_rotary_factor", 0, 1, 0.25);
  if (!rope.problem().empty()) fields.Fail(fmt::format("{}: {}", name, rope.problem()));
  if (shape.rotary_dim() < 2 || shape.rotary_dim() % 2 != 0) {
    fields.Fail(fmt::format("head_dim {} with partial_rotary_factor {} gives a rotary width of {}; it must be even",
                            shape.head_dim, shape.partial_rotary_factor, shape.rotary_dim()));
  }
}

void RefuseWhatQwenDoesNotDo(FieldReader& fields, const char* default_model_type) {
  const std::string type = fields.Text("model_type", default_model_type);
  if (type != "qwen3_5_text") {
    fields.Fail(fmt::format("model_type is \"{}\"; only Qwen3.5 text models (qwen3_5_text) are supported",
                            PrintableName(type)));
  }
  if (fields.Bool("attention_bias", false)) fields.Fail("attention_bias is true; Qwen3.5 has no biases");
  if (!fields.Bool("attn_output_gate", true)) fields.Fail("attn_output_gate is false; Qwen3.5 gates its attention");
  if (!fields.Bool("is_causal", true)) fields.Fail("is_causal is false; only causal attention is supported");
  if (fields.FindNullable("per_layer_config") != nullptr) {
    fields.Fail("per_layer_config is given; only layers that are all alike are supported");
  }
  const std::string activation = fields.Text("hidden_act", "silu");
  if (activation != "silu") {
    fields.Fail(fmt::format("hidden_act is {}; only silu is supported", PrintableName(activation)));
  }
}

void RefuseQuantisation(FieldReader& fields) {
  if (fields.FindNullable("quantization_config") == nullptr) return;
  fields.Fail("quantization_config is given; only weights in float32, bfloat16 or float16 are supported");
}

}  // namespace

absl::StatusOr<ModelShape> ParseModelShape(std::string_view config_json) {
  const absl::StatusOr<json> parsed = ParseUntrustedJson(config_json);
  if (!parsed.ok()) return ConfigError(std::string(parsed.status().message()));
  const json& root = *parsed;
  if (!root.is_object()) return ConfigError("not a JSON object");
  const auto nested = root.find("text_config");
  const bool is_nested = nested != root.end() && nested->is_object();
  FieldReader outer(root);
  FieldReader fields(is_nested ? *nested : root);

  if (is_nested) {
    const std::string type = outer.Text("model_type", "qwen3_5");
    if (type != "qwen3_5") {
      outer.Fail(
          fmt::format("model_type is \"{}\"; with a text_config only qwen3_5 is supported", PrintableName(type)));
    }
  }
  RefuseQuantisation(outer);
  RefuseQuantisation(fields);
  RefuseWhatQwenDoesNotDo(fields, is_nested ? "qwen3_5_text" : "");
  ModelShape shape;
  shape.vocabulary = fields.Integer("vocab_size", 1, kMaxWidth);
  shape.hidden = fields.Integer("hidden_size", 1, kMaxWidth);
  shape.intermediate = fields.Integer("intermediate_size", 1, kMaxWidth);
  const int64_t layer_count = fields.Integer("num_hidden_layers", 1, kMaxLayers);
  shape.attention_heads = fields.Integer("num_attention_heads", 1, 4096);
  shape.kv_heads = fields.Integer("num_key_value_heads", 1, 4096);
  shape.head_dim = fields.Integer("head_dim", 1, 4096, 256);
  shape.linear_key_heads = fields.Integer("linear_num_key_heads", 1, 4096);
  shape.linear_value_heads = fields.Integer("linear_num_value_heads", 1, 4096);
  shape.linear_key_dim = fields.Integer("linear_key_head_dim", 1, 4096);
  shape.linear_value_dim = fields.Integer("linear_value_head_dim", 1, 4096);
  shape.conv_kernel = fields.Integer("linear_conv_kernel_dim", 1, 64, 4);
  shape.norm_eps = fields.Number("rms_norm_eps", 1e-12, 1, 1e-6);
  shape.max_positions = fields.Integer("max_position_embeddings", 1, int64_t{1} << 32, 32768);
  shape.tied_head = fields.Bool("tie_word_embeddings", outer.Bool("tie_word_embeddings", false));
  QGPU_RETURN_IF_ERROR(outer.status());
  QGPU_RETURN_IF_ERROR(fields.status());
  ReadLayerTypes(fields, layer_count, shape);
  ReadRotary(fields, shape);
  if (shape.attention_heads % shape.kv_heads != 0) {
    fields.Fail(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", shape.attention_heads,
                            shape.kv_heads));
  }
  if (shape.linear_value_heads % shape.linear_key_heads != 0) {
    fields.Fail(fmt::format("linear_num_value_heads {} is not a multiple of linear_num_key_heads {}",
                            shape.linear_value_heads, shape.linear_key_heads));
  }
  QGPU_RETURN_IF_ERROR(fields.status());
  return shape;
}

std::string ModelShapeToConfig(const ModelShape& shape, std::string_view stored_type, int64_t eos_token_id) {
  nlohmann::ordered_json layer_types = nlohmann::ordered_json::array();
  for (LayerType type : shape.layers) {
    layer_types.push_back(type == LayerType::kFullAttention ? "full_attention" : "linear_attention");
  }
  nlohmann::ordered_json config = {
      {"architectures", {"Qwen3_5ForCausalLM"}},
      {"model_type", "qwen3_5_text"},
      {"dtype", stored_type},
      {"vocab_size", shape.vocabulary},
      {"hidden_size", shape.hidden},
      {"intermediate_size", shape.intermediate},
      {"num_hidden_layers", shape.layers.size()},
      {"layer_types", layer_types},
      {"num_attention_heads", shape.attention_heads},
      {"num_key_value_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"linear_num_key_heads", shape.linear_key_heads},
      {"linear_num_value_heads", shape.linear_value_heads},
      {"linear_key_head_dim", shape.linear_key_dim},
      {"linear_value_head_dim", shape.linear_value_dim},
      {"linear_conv_kernel_dim", shape.conv_kernel},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"rms_norm_eps", shape.norm_eps},
      {"max_position_embeddings", shape.max_positions},
      {"tie_word_embeddings", shape.tied_head},
      {"use_cache", true},
      {"rope_parameters",
       {{"rope_type", "default"},
        {"rope_theta", shape.rope_theta},
        {"partial_rotary_factor", shape.partial_rotary_factor}}},
  };
  if (eos_token_id >= 0) config["eos_token_id"] = eos_token_id;
  return config.dump(2) + "\n";
}

int64_t TensorSpec::row_size() const {
  int64_t size = 1;
  for (size_t i = 1; i < dims.size(); ++i) size *= dims[i];
  return size;
}

std::string LayerPrefix(int64_t layer) { return fmt::format("layers.{}.", layer); }

std::vector<TensorSpec> ModelTensors(const ModelShape& shape) {
  const int64_t hidden = shape.hidden;
  std::vector<TensorSpec> specs = {{"embed_tokens.weight", {shape.vocabulary, hidden}}};
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string layer = LayerPrefix(i);
    const auto add = [&](const char* name, std::vector<int64_t> dims) {
      specs.push_back({layer + name, std::move(dims)});
    };
    add("input_layernorm.weight", {hidden});
    if (shape.layers[i] == LayerType::kLinearAttention) {
      add("linear_attn.in_proj_qkv.weight", {shape.conv_channels(), hidden});
      add("linear_attn.in_proj_z.weight", {shape.linear_values(), hidden});
      add("linear_attn.in_proj_b.weight", {shape.linear_value_heads, hidden});
      add("linear_attn.in_proj_a.weight", {shape.linear_value_heads, hidden});
      add("linear_attn.conv1d.weight", {shape.conv_channels(), 1, shape.conv_kernel});
      add("linear_attn.dt_bias", {shape.linear_value_heads});
      add("linear_attn.A_log", {shape.linear_value_heads});
      add("linear_attn.norm.weight", {shape.linear_value_dim});
      add("linear_attn.out_proj.weight", {hidden, shape.linear_values()});
    } else {
      const int64_t queries = shape.attention_heads * shape.head_dim, keys = shape.kv_heads * shape.head_dim;
      add("self_attn.q_proj.weight", {2 * queries, hidden});
      add("self_attn.k_proj.weight", {keys, hidden});
      add("self_attn.v_proj.weight", {keys, hidden});
      add("self_attn.o_proj.weight", {hidden, queries});
      add("self_attn.q_norm.weight", {shape.head_dim});
      add("self_attn.k_norm.weight", {shape.head_dim});
    }
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {shape.intermediate, hidden});
    add("mlp.up_proj.weight", {shape.intermediate, hidden});
    add("mlp.down_proj.weight", {hidden, shape.intermediate});
  }
  specs.push_back({"norm.weight", {hidden}});
  if (!shape.tied_head) specs.push_back({"lm_head.weight", {shape.vocabulary, hidden}});
  return specs;
}

}  // namespace qgpu
