#include "model/text/generation_config.h"

#include <algorithm>
#include <set>

#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Fields that need nothing done: they name other tokens, lengths that the caller sets, or who wrote the file.
const std::set<std::string> kHarmless = {"bos_token_id",   "pad_token_id",         "decoder_start_token_id",
                                         "eos_token_id",   "_from_model_config",   "max_length",
                                         "max_new_tokens", "transformers_version", "use_cache"};

absl::StatusOr<json> ReadObject(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return json::object();
  if (!text.ok()) return text.status();
  absl::StatusOr<json> object = ParseUntrustedJson(*text);
  if (!object.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(object.status().message())));
  }
  if (!object->is_object()) return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", path));
  return object;
}

absl::Status AddStop(const json& value, const std::string& place, const Tokenizer& tokenizer,
                     std::set<int32_t>& stops) {
  if (value.is_null()) return absl::OkStatus();
  if (value.is_array()) {
    for (const json& element : value) {
      if (!element.is_number_integer()) return absl::InvalidArgumentError(fmt::format("{}: not a list of ids", place));
      QGPU_RETURN_IF_ERROR(AddStop(element, place, tokenizer, stops));
    }
    return absl::OkStatus();
  }
  if (!value.is_number_integer()) return absl::InvalidArgumentError(fmt::format("{}: neither an id nor a list", place));
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= kMaxTokenId;
  if (!fits || !tokenizer.Contains(value.get<int32_t>())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is no token of tokenizer.json; one of the files is of another model", place, value.dump()));
  }
  stops.insert(value.get<int32_t>());
  return absl::OkStatus();
}

absl::Status AddStopByName(const json& config, const std::string& place, const Tokenizer& tokenizer,
                           std::set<int32_t>& stops) {
  const auto field = config.find("eos_token");
  if (field == config.end() || field->is_null()) return absl::OkStatus();
  const json* text = &*field;
  if (text->is_object() && text->contains("content")) text = &text->at("content");
  if (!text->is_string()) return absl::InvalidArgumentError(fmt::format("{}: eos_token: not a string", place));
  const std::optional<int32_t> id = tokenizer.Find(text->get_ref<const std::string&>());
  if (!id.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: eos_token: \"{}\" is no token of tokenizer.json; one of the files is of another model", place,
                    text->get_ref<const std::string&>()));
  }
  stops.insert(*id);
  return absl::OkStatus();
}

absl::Status ReadNumber(const json& config, const char* name, const std::string& place, double& number) {
  const auto field = config.find(name);
  if (field == config.end() || field->is_null()) return absl::OkStatus();
  if (!field->is_number()) return absl::InvalidArgumentError(fmt::format("{}: {}: not a number", place, name));
  number = field->get<double>();
  return absl::OkStatus();
}

absl::Status ReadSampling(const json& config, const std::string& place, GenerationConfig& result) {
  const auto do_sample = config.find("do_sample");
  if (do_sample != config.end() && !do_sample->is_boolean() && !do_sample->is_null()) {
    return absl::InvalidArgumentError(fmt::format("{}: do_sample: not true or false", place));
  }
  double temperature = 1, top_k = 50, top_p = 1, min_p = 0, repetition_penalty = 1;  // the defaults of Hugging Face
  QGPU_RETURN_IF_ERROR(ReadNumber(config, "temperature", place, temperature));
  QGPU_RETURN_IF_ERROR(ReadNumber(config, "top_k", place, top_k));
  QGPU_RETURN_IF_ERROR(ReadNumber(config, "top_p", place, top_p));
  QGPU_RETURN_IF_ERROR(ReadNumber(config, "min_p", place, min_p));
  QGPU_RETURN_IF_ERROR(ReadNumber(config, "repetition_penalty", place, repetition_penalty));
  if (!(top_k >= 0 && top_k <= kMaxTokenId && top_k == static_cast<double>(static_cast<int64_t>(top_k)))) {
    return absl::InvalidArgumentError(fmt::format("{}: top_k: {} is not a whole number of 0 or more", place, top_k));
  }
  SamplingOptions sampling;
  sampling.temperature = temperature;
  sampling.top_k = static_cast<int64_t>(top_k);
  sampling.top_p = top_p;
  sampling.min_p = min_p;
  sampling.repetition_penalty = repetition_penalty;
  if (const absl::Status check = CheckSamplingOptions(sampling); !check.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", place, std::string(check.message())));
  }
  result.sampling.repetition_penalty = repetition_penalty;  // greedy or not
  if (do_sample != config.end() && *do_sample == true) result.sampling = sampling;
  const std::set<std::string> followed = {"do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty"};
  for (const auto& [name, value] : config.items()) {
    if (kHarmless.count(name) == 0 && followed.count(name) == 0 && !value.is_null() && value != false)
      result.ignored.push_back(name);
  }
  return absl::OkStatus();
}

}  // namespace

bool GenerationConfig::IsStop(int32_t id) const {
  return std::binary_search(stop_tokens.begin(), stop_tokens.end(), id);
}

absl::StatusOr<GenerationConfig> ReadGenerationConfig(const std::string& directory, const Tokenizer& tokenizer) {
  const std::string generation_path = directory + "/generation_config.json", config_path = directory + "/config.json",
                    tokenizer_path = directory + "/tokenizer_config.json";
  QGPU_ASSIGN_OR_RETURN(const json generation, ReadObject(generation_path));
  QGPU_ASSIGN_OR_RETURN(const json config, ReadObject(config_path));
  QGPU_ASSIGN_OR_RETURN(const json tokenizer_config, ReadObject(tokenizer_path));
  GenerationConfig result;
  QGPU_RETURN_IF_ERROR(ReadSampling(generation, generation_path, result));
  std::set<int32_t> stops;
  if (generation.contains("eos_token_id")) {
    QGPU_RETURN_IF_ERROR(AddStop(generation["eos_token_id"], generation_path + ": eos_token_id", tokenizer, stops));
  } else {
    const bool nested = config.contains("text_config") && config["text_config"].is_object();
    const json& text_config = nested ? config["text_config"] : config;
    const json& holder = config.contains("eos_token_id") ? config : text_config;
    if (const auto ids = holder.find("eos_token_id"); ids != holder.end()) {
      QGPU_RETURN_IF_ERROR(AddStop(*ids, config_path + ": eos_token_id", tokenizer, stops));
    }
  }
  QGPU_RETURN_IF_ERROR(AddStopByName(tokenizer_config, tokenizer_path, tokenizer, stops));
  result.stop_tokens.assign(stops.begin(), stops.end());
  return result;
}

}  // namespace qgpu
