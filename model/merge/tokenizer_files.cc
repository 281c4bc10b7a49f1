#include "model/merge/tokenizer_files.h"

#include <set>

#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;

json AddedToken(const std::string& text) {
  return {{"content", text}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},  {"special", false}};
}

bool HasObject(const json& parent, const char* key) {
  return parent.is_object() && parent.contains(key) && parent[key].is_object();
}

// Texts that the tokenizer has already; every id must be below `first_id`.
absl::StatusOr<std::set<std::string>> TakenTexts(const json& vocabulary, const json& added, int64_t first_id) {
  std::set<std::string> taken;
  const auto is_below = [&](const json& id) { return id.is_number_unsigned() && id < first_id; };
  for (const auto& [text, id] : vocabulary.items()) {
    if (!is_below(id)) {
      return absl::InvalidArgumentError(fmt::format("token \"{}\" has id {}; the model's vocabulary ends at {}",
                                                    PrintableName(text), PrintableName(id.dump()), first_id));
    }
    taken.insert(text);
  }
  for (const json& token : added) {
    if (!token.is_object() || !token.contains("id") || !is_below(token["id"])) {
      return absl::InvalidArgumentError(
          fmt::format("added token {} has no id below {}", PrintableName(token.dump()), first_id));
    }
    if (token.contains("content") && token["content"].is_string()) taken.insert(token["content"].get<std::string>());
  }
  return taken;
}

}  // namespace

absl::StatusOr<std::string> AddTokens(const std::string& tokenizer_json, int64_t first_id,
                                      const std::vector<std::string>& texts) {
  QGPU_ASSIGN_OR_RETURN(json tokenizer, ParseUntrustedJson(tokenizer_json));
  if (!HasObject(tokenizer, "model") || !HasObject(tokenizer["model"], "vocab")) {
    return absl::InvalidArgumentError("not a BPE tokenizer file (no object model.vocab)");
  }
  json& vocabulary = tokenizer["model"]["vocab"];
  json& added = tokenizer["added_tokens"];
  if (added.is_null()) added = json::array();
  if (!added.is_array()) return absl::InvalidArgumentError("added_tokens is not a list");
  QGPU_ASSIGN_OR_RETURN(std::set<std::string> taken, TakenTexts(vocabulary, added, first_id));
  // The base's added tokens and the new ones are in the vocabulary as well as in the list: only so does the tokenizers
  // library keep the ids of both. It numbers what is in the list alone from the vocabulary's size on, whatever the list
  // says.
  for (const json& token : added) {
    if (!token.contains("content") || !token["content"].is_string()) continue;
    const std::string text = token["content"].get<std::string>();
    if (!vocabulary.contains(text)) vocabulary[text] = token["id"];
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t id = first_id + static_cast<int64_t>(i);
    if (!taken.insert(texts[i]).second) {
      return absl::InvalidArgumentError(fmt::format("token \"{}\" is taken", texts[i]));
    }
    vocabulary[texts[i]] = id;
    json token = AddedToken(texts[i]);
    token["id"] = id;
    added.push_back(std::move(token));
  }
  return tokenizer.dump(1) + "\n";
}

absl::StatusOr<std::string> AddTokensToConfig(const std::string& tokenizer_config_json, int64_t first_id,
                                              const std::vector<std::string>& texts) {
  QGPU_ASSIGN_OR_RETURN(json config, ParseUntrustedJson(tokenizer_config_json));
  if (!config.is_object()) return absl::InvalidArgumentError("not a JSON object");
  if (!HasObject(config, "added_tokens_decoder")) return tokenizer_config_json;
  json& decoder = config["added_tokens_decoder"];
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string id = fmt::format("{}", first_id + static_cast<int64_t>(i));
    if (decoder.contains(id)) return absl::InvalidArgumentError(fmt::format("added_tokens_decoder has id {}", id));
    decoder[id] = AddedToken(texts[i]);
  }
  return config.dump(2) + "\n";
}

}  // namespace qgpu
