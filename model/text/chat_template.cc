#include "model/text/chat_template.h"

#include "model/base/untrusted_json.h"
#include "model/text/jinja/interpreter.h"
#include "model/text/jinja/parser.h"
#include "model/text/utf8.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, std::string(status.message())));
}

absl::StatusOr<json> ReadTokenizerConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return json::object();
  if (!text.ok()) return text.status();
  absl::StatusOr<json> config = ParseUntrustedJson(*text);
  if (!config.ok()) return In(path, config.status());
  if (!config->is_object()) return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", path));
  return config;
}

// The template in a tokenizer_config.json.
absl::StatusOr<std::string> TemplateIn(const json& config, const std::string& path) {
  const auto field = config.find("chat_template");
  if (field == config.end() || field->is_null()) {
    return absl::NotFoundError(
        fmt::format("{}: no chat_template, and no chat_template.jinja beside it; a base model "
                    "without chat template cannot chat",
                    path));
  }
  if (field->is_string()) return field->get<std::string>();
  if (field->is_array()) {
    for (const json& named : *field) {
      const bool is_default = named.is_object() && named.contains("name") && named["name"] == "default";
      if (is_default && named.contains("template") && named["template"].is_string())
        return named["template"].get<std::string>();
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: chat_template is neither a string nor a list with a \"default\"", path));
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Body body;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

ChatTemplate::ChatTemplate() : parsed_(new Parsed) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(fmt::format("the chat template has more than {} bytes", kMaxTemplateBytes));
  }
  QGPU_RETURN_IF_ERROR(CheckUtf8(source, "the chat template"));
  std::shared_ptr<ChatTemplate> result(new ChatTemplate);
  QGPU_ASSIGN_OR_RETURN(result->parsed_->body, jinja::ParseTemplate(source));
  return std::shared_ptr<const ChatTemplate>(std::move(result));
}

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Open(const std::string& directory) {
  const std::string config_path = directory + "/tokenizer_config.json";
  std::string path = directory + "/chat_template.jinja";
  QGPU_ASSIGN_OR_RETURN(const json config, ReadTokenizerConfig(config_path));
  absl::StatusOr<std::string> source = ReadUntrustedText(path, kMaxTemplateBytes);
  if (absl::IsNotFound(source.status())) {
    path = config_path;
    source = TemplateIn(config, path);
  }
  if (!source.ok()) return source.status();
  const auto parsed = Parse(*source);
  if (!parsed.ok()) return In(path, parsed.status());
  for (const char* const name : kSpecialTokens) {
    const auto field = config.find(name);
    if (field == config.end()) continue;
    const json& token = field->is_object() && field->contains("content") ? field->at("content") : *field;
    if (token.is_string()) (*parsed)->parsed_->special_tokens.emplace_back(name, token.get<std::string>());
  }
  return parsed;
}

absl::StatusOr<std::string> ChatTemplate::RenderJson(const ordered_json& variables) const {
  if (!variables.is_object()) return absl::InvalidArgumentError("the variables of a chat template are an object");
  std::vector<std::pair<std::string, jinja::Value>> values = {{"tools", jinja::Value::None()},
                                                              {"documents", jinja::Value::None()},
                                                              {"add_generation_prompt", jinja::Value(false)}};
  for (const auto& [name, text] : parsed_->special_tokens) values.emplace_back(name, jinja::Value(text));
  for (const auto& [name, variable] : variables.items()) {
    QGPU_ASSIGN_OR_RETURN(jinja::Value value, jinja::FromJson(variable));
    values.emplace_back(name, std::move(value));
  }
  absl::StatusOr<std::string> text = jinja::Render(parsed_->body, values);
  if (!text.ok()) return In("the chat template", text.status());
  return text;
}

absl::StatusOr<ordered_json> ChatTemplate::Variables(const std::vector<ChatMessage>& messages,
                                                     const ChatOptions& options) {
  ordered_json variables = {{"messages", ordered_json::array()},
                            {"add_generation_prompt", options.add_generation_prompt}};
  for (const ChatMessage& message : messages) {
    QGPU_RETURN_IF_ERROR(CheckUtf8(message.role, "a message's role"));
    QGPU_RETURN_IF_ERROR(CheckUtf8(message.content, fmt::format("the {}'s message", message.role)));
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (options.enable_thinking.has_value()) variables["enable_thinking"] = *options.enable_thinking;
  return variables;
}

absl::StatusOr<std::string> ChatTemplate::Render(const std::vector<ChatMessage>& messages,
                                                 const ChatOptions& options) const {
  QGPU_ASSIGN_OR_RETURN(const ordered_json variables, Variables(messages, options));
  return RenderJson(variables);
}

}  // namespace qgpu
