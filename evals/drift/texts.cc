#include "evals/drift/texts.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "embedded/qgpu_drift_texts.h"
#include "model/base/untrusted_json.h"
#include "model/text/tokenizer.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

const std::string_view* EmbeddedFile(std::string_view name) {
  for (const drift_texts::File& file : drift_texts::Files()) {
    if (file.name == name) return &file.text;
  }
  return nullptr;
}

absl::StatusOr<std::string> Field(const nlohmann::json& entry, const char* key) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (found != entry.end() && found->is_string() && !found->get<std::string>().empty()) {
    return found->get<std::string>();
  }
  return absl::InternalError(fmt::format("the manifest of the drift texts has an entry without {}", key));
}

absl::StatusOr<DriftText> TextOfFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(fmt::format(
        "drift text {}: neither a shipped text (all, prose, code, chat, numbers, trigger) nor a file", path));
  }
  DriftText text{path, "file", "not known", path, ""};
  QGPU_RETURN_IF_ERROR(CheckUtf8(path, fmt::format("the name of the drift text {}", path)));
  QGPU_ASSIGN_OR_RETURN(text.text, ReadUntrustedText(path, kMaxTextBytes));
  QGPU_RETURN_IF_ERROR(CheckUtf8(text.text, path));
  return text;
}

}  // namespace

absl::StatusOr<std::vector<DriftText>> ParseDriftManifest(std::string_view manifest,
                                                          const std::string_view* (*file)(std::string_view name)) {
  QGPU_ASSIGN_OR_RETURN(const nlohmann::json json, ParseUntrustedJson(manifest));
  if (!json.is_object() || !json.contains("texts") || !json["texts"].is_array()) {
    return absl::InternalError("the manifest of the drift texts has no list of texts");
  }
  std::vector<DriftText> texts;
  for (const nlohmann::json& entry : json["texts"]) {
    DriftText text;
    QGPU_ASSIGN_OR_RETURN(text.name, Field(entry, "name"));
    QGPU_ASSIGN_OR_RETURN(text.kind, Field(entry, "kind"));
    QGPU_ASSIGN_OR_RETURN(text.licence, Field(entry, "licence"));
    QGPU_ASSIGN_OR_RETURN(text.source, Field(entry, "source"));
    QGPU_ASSIGN_OR_RETURN(const std::string name, Field(entry, "file"));
    const std::string_view* const content = file(name);
    if (content == nullptr) return absl::InternalError(fmt::format("the drift text {} is not shipped", name));
    text.text = std::string(*content);
    texts.push_back(std::move(text));
  }
  return texts;
}

absl::StatusOr<std::vector<DriftText>> ShippedDriftTexts() {
  const std::string_view* const manifest = EmbeddedFile("manifest.json");
  if (manifest == nullptr) return absl::InternalError("the manifest of the drift texts is not shipped");
  return ParseDriftManifest(*manifest, EmbeddedFile);
}

absl::StatusOr<std::vector<DriftText>> DriftTextsNamed(const std::vector<std::string>& words) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<DriftText> shipped, ShippedDriftTexts());
  std::vector<DriftText> texts;
  for (const std::string& word : words) {
    const size_t before = texts.size();
    for (const DriftText& text : shipped) {
      if (word == "all" || word == text.name) texts.push_back(text);
    }
    if (texts.size() > before) continue;
    QGPU_ASSIGN_OR_RETURN(DriftText text, TextOfFile(word));
    texts.push_back(std::move(text));
  }
  std::set<std::string> names;
  for (const DriftText& text : texts) {
    if (!names.insert(text.name).second) {
      return absl::InvalidArgumentError(fmt::format("the drift text {} is named twice", text.name));
    }
  }
  if (texts.empty()) return absl::InvalidArgumentError("no drift text is named");
  return texts;
}

absl::StatusOr<DriftEncoder> DriftEncoder::Open(const std::string& base_directory, int64_t vocabulary) {
  DriftEncoder encoder;
  encoder.vocabulary_ = vocabulary;
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Open(base_directory);
  if (absl::IsNotFound(tokenizer.status())) return encoder;
  if (!tokenizer.ok()) return tokenizer.status();
  QGPU_RETURN_IF_ERROR(CheckTokenizerFits(**tokenizer, vocabulary, {}));
  encoder.tokenizer_ = *std::move(tokenizer);
  return encoder;
}

absl::StatusOr<DriftTokens> DriftEncoder::Encode(const DriftText& text, int64_t positions) const {
  DriftTokens tokens{text.name, {}};
  if (tokenizer_) {
    // As text: what looks like a special token was written by a person.
    const auto ids = tokenizer_->Encode(text.text, Tokenizer::SpecialTokens::kAsText);
    if (!ids.ok()) {
      return absl::InvalidArgumentError(fmt::format("text {}: {}", text.name, std::string(ids.status().message())));
    }
    tokens.ids.assign(ids->begin(), ids->end());
  } else {
    for (const char c : text.text) tokens.ids.push_back(static_cast<uint8_t>(c) % vocabulary_);
  }
  if (tokens.ids.size() < 2) {
    return absl::InvalidArgumentError(
        fmt::format("text {} has {} tokens; at least 2 are needed", text.name, tokens.ids.size()));
  }
  if (positions > 0 && positions < static_cast<int64_t>(tokens.ids.size())) tokens.ids.resize(positions + 1);
  return tokens;
}

std::string DriftEncoder::Show(const std::vector<int64_t>& ids) const {
  std::string text;
  if (tokenizer_) {
    text = tokenizer_->Decode(std::vector<int32_t>(ids.begin(), ids.end()));
  } else {
    for (const int64_t id : ids) text += id >= ' ' && id <= '~' ? static_cast<char>(id) : '?';
  }
  std::string shown;
  for (const char c : text) {
    const bool control = static_cast<uint8_t>(c) < ' ' || c == '\x7f';
    shown += c == '\n' ? "\\n" : control ? "?" : std::string(1, c);
  }
  return shown;
}

std::string DriftEncoder::Description() const {
  return tokenizer_ ? "tokenizer.json of the base" : fmt::format("no tokenizer: bytes modulo {}", vocabulary_);
}

}  // namespace qgpu
