#include "model/text/tokenizer_file.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>

#include "model/text/pattern_check.h"
#include "model/text/tokenizer_json.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;

// The pattern of ByteLevel with use_regex, GPT-2's.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::Status Refuse(const std::string& place, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", place, what));
}

// An object of which every field must be known: a value it must have (one of several), or a reader.
class Fields {
 public:
  using Reader = std::function<absl::Status(const json&)>;

  Fields& Must(const std::string& name, std::initializer_list<json> allowed) {
    readers_[name] = [this, name, values = std::vector<json>(allowed)](const json& value) {
      if (std::find(values.begin(), values.end(), value) != values.end()) return absl::OkStatus();
      return Refuse(place_ + name, fmt::format("{} is not supported, only {}", ShownJson(value), ShownJson(values[0])));
    };
    return *this;
  }
  Fields& Any(const std::string& name) {
    readers_[name] = [](const json&) { return absl::OkStatus(); };
    return *this;
  }
  Fields& Read(const std::string& name, Reader reader) {
    readers_[name] = std::move(reader);
    required_.push_back(name);
    return *this;
  }
  Fields& Flag(const std::string& name, bool& flag) {
    readers_[name] = [this, name, &flag](const json& value) {
      if (!value.is_boolean()) return Refuse(place_ + name, fmt::format("{} is not true or false", ShownJson(value)));
      flag = value.get<bool>();
      return absl::OkStatus();
    };
    return *this;
  }

  absl::Status Check(const std::string& place, const json& object) {
    place_ = place.empty() ? "" : place + ".";
    if (!object.is_object()) return Refuse(place.empty() ? "the file" : place, "not an object");
    if (const auto type = object.find("type"); type != object.end() && readers_.count("type") != 0) {
      QGPU_RETURN_IF_ERROR(readers_.at("type")(*type));
    }
    for (const auto& [name, value] : object.items()) {
      if (readers_.count(name) != 0) continue;
      return Refuse(place_ + name, "this field is not known, and so not supported");
    }
    for (const std::string& name : required_) {
      if (!object.contains(name)) return Refuse(place_ + name, "missing");
    }
    for (const auto& [name, value] : object.items()) {
      QGPU_RETURN_IF_ERROR(readers_.at(name)(value));
    }
    return absl::OkStatus();
  }

 private:
  std::string place_;
  std::map<std::string, Reader> readers_;
  std::vector<std::string> required_;
};

std::string TypeOf(const json& component) {
  const auto type = component.is_object() ? component.find("type") : component.end();
  return component.is_object() && type != component.end() && type->is_string() ? type->get<std::string>() : "";
}

absl::Status ReadNormalizer(const json& value, TokenizerFile& file) {
  if (value.is_null()) return absl::OkStatus();
  const std::string type = TypeOf(value);
  if (type != "NFC") return Refuse("normalizer", fmt::format("type \"{}\" is not supported, only NFC", type));
  file.nfc = true;
  return Fields().Any("type").Check("normalizer", value);
}

absl::Status ReadByteLevel(const std::string& place, const json& value, TokenizerFile* split) {
  bool use_regex = true, add_prefix_space = true;
  QGPU_RETURN_IF_ERROR(Fields()
                           .Must("type", {"ByteLevel"})
                           .Flag("add_prefix_space", add_prefix_space)
                           .Any("trim_offsets")  // concerns offsets only
                           .Flag("use_regex", use_regex)
                           .Check(place, value));
  if (split == nullptr) return absl::OkStatus();
  if (add_prefix_space) return Refuse(place + ".add_prefix_space", "true (or left out) is not supported, only false");
  if (use_regex) split->split_patterns.push_back(kByteLevelPattern);
  return absl::OkStatus();
}

absl::Status ReadSplit(const std::string& place, const json& value, TokenizerFile& file) {
  const auto read_pattern = [&](const json& pattern) {
    const auto read_regex = [&](const json& regex) {
      if (!regex.is_string()) return Refuse(place + ".pattern.Regex", "not a string");
      const absl::Status check = CheckSplitPattern(regex.get_ref<const std::string&>());
      if (!check.ok()) return Refuse(place + ".pattern.Regex", std::string(check.message()));
      file.split_patterns.push_back(regex.get<std::string>());
      return absl::OkStatus();
    };
    return Fields().Read("Regex", read_regex).Check(place + ".pattern", pattern);
  };
  return Fields()
      .Must("type", {"Split"})
      .Read("pattern", read_pattern)
      .Must("behavior", {"Isolated"})
      .Must("invert", {false})
      .Check(place, value);
}

constexpr size_t kMostSplits = 8;

absl::Status ReadPreTokenizer(const json& value, TokenizerFile& file) {
  const std::string type = TypeOf(value);
  if (type == "ByteLevel") return ReadByteLevel("pre_tokenizer", value, &file);
  if (type != "Sequence") {
    return Refuse("pre_tokenizer", fmt::format("type \"{}\" is not supported, only Sequence and ByteLevel", type));
  }
  const auto read_parts = [&](const json& parts) {
    if (!parts.is_array() || parts.empty() || parts.size() > kMostSplits) {
      return Refuse("pre_tokenizer.pretokenizers", fmt::format("not a list of 1 to {}", kMostSplits));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string place = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
      const std::string type = TypeOf(parts[i]);
      const bool last = i + 1 == parts.size();
      if (last != (type == "ByteLevel") || (!last && type != "Split")) {
        return Refuse(place,
                      fmt::format("type \"{}\" is not supported here, only Split, and ByteLevel at the end", type));
      }
      QGPU_RETURN_IF_ERROR(last ? ReadByteLevel(place, parts[i], &file) : ReadSplit(place, parts[i], file));
    }
    return absl::OkStatus();
  };
  return Fields().Any("type").Read("pretokenizers", read_parts).Check("pre_tokenizer", value);
}

// A template that puts nothing around a text, which is what `transformers` saves for a tokenizer without one. Its
// "pair" is for two texts at once, which are never encoded here.
bool AddsNothing(const json& value) {
  static const json kTextAlone = json::parse(R"([{"Sequence": {"id": "A", "type_id": 0}}])");
  return value.is_object() && value.value("type", json()) == "TemplateProcessing" &&
         value.value("single", json()) == kTextAlone && value.value("special_tokens", json()) == json::object();
}

absl::Status ReadPostProcessor(const json& value) {
  return value.is_null() || AddsNothing(value) ? absl::OkStatus() : ReadByteLevel("post_processor", value, nullptr);
}

absl::Status ReadModel(const json& value, TokenizerFile& file) {
  // The entries were taken while the file was parsed.
  const auto check_vocabulary = [](const json& vocabulary) {
    return vocabulary.is_object() ? absl::OkStatus() : Refuse("model.vocab", "not an object");
  };
  const auto check_merges = [](const json& merges) {
    return merges.is_array() ? absl::OkStatus() : Refuse("model.merges", "not a list");
  };
  return Fields()
      .Must("type", {"BPE"})
      .Must("dropout", {nullptr, 0.0})
      .Any("unk_token")  // never used: every byte has a token
      .Any("fuse_unk")
      .Must("continuing_subword_prefix", {nullptr, ""})
      .Must("end_of_word_suffix", {nullptr, ""})
      .Must("byte_fallback", {false})
      .Flag("ignore_merges", file.ignore_merges)
      .Read("vocab", check_vocabulary)
      .Read("merges", check_merges)
      .Check("model", value);
}

absl::Status ReadAddedTokens(const json& value, TokenizerFile& file) {
  if (!value.is_array()) return Refuse("added_tokens", "not a list");
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("added_tokens[{}]", i);
    AddedToken token;
    const auto read_id = [&](const json& id) -> absl::Status {
      QGPU_ASSIGN_OR_RETURN(token.id, TokenIdIn(place, id));
      return absl::OkStatus();
    };
    const auto read_content = [&](const json& content) {
      if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
        return Refuse(place + ".content", "not a string with at least one character");
      }
      token.content = content.get<std::string>();
      return absl::OkStatus();
    };
    QGPU_RETURN_IF_ERROR(Fields()
                             .Read("id", read_id)
                             .Read("content", read_content)
                             .Flag("special", token.special)
                             .Flag("normalized", token.normalized)
                             .Flag("lstrip", token.lstrip)
                             .Flag("rstrip", token.rstrip)
                             .Flag("single_word", token.single_word)
                             .Check(place, value[i]));
    file.added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(std::string_view text) {
  QGPU_ASSIGN_OR_RETURN(TokenizerJson parsed, ReadTokenizerJson(text));
  const json& document = parsed.document;
  TokenizerFile file;
  file.vocabulary = std::move(parsed.vocabulary);
  file.merges = std::move(parsed.merges);
  const auto decoder = [](const json& value) { return ReadByteLevel("decoder", value, nullptr); };
  QGPU_RETURN_IF_ERROR(Fields()
                           .Must("version", {"1.0"})
                           .Must("truncation", {nullptr})
                           .Must("padding", {nullptr})
                           .Read("added_tokens", [&](const json& value) { return ReadAddedTokens(value, file); })
                           .Read("normalizer", [&](const json& value) { return ReadNormalizer(value, file); })
                           .Read("pre_tokenizer", [&](const json& value) { return ReadPreTokenizer(value, file); })
                           .Read("post_processor", ReadPostProcessor)
                           .Read("decoder", decoder)
                           .Read("model", [&](const json& value) { return ReadModel(value, file); })
                           .Check("", document));
  return file;
}

}  // namespace qgpu
