// `qgpu tokenize` and `qgpu detokenize`: the tokenizer and chat template of a base model, as JSON.
#include "cli/text_commands.h"

#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

struct TokenizeOptions {
  std::string directory, text;
  bool has_text = false, as_text = false, chat = false;
};

struct DetokenizeOptions {
  std::string directory;
  std::vector<int64_t> ids;
  bool skip_special = false;
};

absl::StatusOr<std::string> ReadAll(std::istream& in) {
  std::string text;
  std::vector<char> buffer(size_t{1} << 16);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    text.append(buffer.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxTextBytes) {
      return absl::InvalidArgumentError(fmt::format("standard input has more than {} bytes", kMaxTextBytes));
    }
  }
  return text;
}

// The text of a conversation: a list of messages, for which the assistant is to write next, or an object with all
// variables of the template.
absl::StatusOr<std::string> RenderConversation(const std::string& directory, const std::string& json) {
  QGPU_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Open(directory));
  ordered_json variables = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (variables.is_array()) variables = {{"messages", std::move(variables)}, {"add_generation_prompt", true}};
  if (!variables.is_object()) {
    return absl::InvalidArgumentError(
        "--chat: the input is no conversation; give [{\"role\": \"user\", \"content\": \"...\"}] or an object with "
        "\"messages\"");
  }
  return chat_template->RenderJson(variables);
}

absl::StatusOr<ExitCode> Tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(options.directory));
  std::string text = options.text;
  if (!options.has_text) {
    QGPU_ASSIGN_OR_RETURN(text, ReadAll(in));
  }
  ordered_json answer = ordered_json::object();
  if (options.chat) {
    QGPU_ASSIGN_OR_RETURN(text, RenderConversation(options.directory, text));
    answer["text"] = text;
  }
  const auto special = options.as_text ? Tokenizer::SpecialTokens::kAsText : Tokenizer::SpecialTokens::kFound;
  QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(text, special));
  answer["ids"] = ids;
  answer["tokens"] = ordered_json::array();
  for (const int32_t id : ids) answer["tokens"].push_back(std::string(tokenizer->Text(id)));
  out << answer.dump() << "\n";
  return kExitGood;
}

// Ids from JSON ([1, 2] or {"ids": [1, 2]}, what tokenize prints) or as numbers with spaces or commas between.
absl::StatusOr<std::vector<int64_t>> ParseIds(std::string text) {
  ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    for (char& c : text) c = c == '\n' || c == '\r' || c == '\t' || c == ',' ? ' ' : c;
    std::string list = "[";
    for (size_t at = 0, end = 0; (at = text.find_first_not_of(' ', end)) != std::string::npos;) {
      end = std::min(text.find(' ', at), text.size());
      list += (list.size() > 1 ? "," : "") + text.substr(at, end - at);
    }
    json = ordered_json::parse(list + "]", nullptr, /*allow_exceptions=*/false);
  }
  if (json.is_object() && json.contains("ids")) {
    ordered_json inner = std::move(json["ids"]);
    json = std::move(inner);
  }
  if (json.is_number()) json = ordered_json::array({json});
  const absl::Status error =
      absl::InvalidArgumentError("the input is no list of token ids; give numbers, [1, 2] or {\"ids\": [1, 2]}");
  if (!json.is_array()) return error;
  std::vector<int64_t> ids;
  for (const ordered_json& id : json) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX)) return error;
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

absl::StatusOr<ExitCode> Detokenize(const DetokenizeOptions& options, std::istream& in, std::ostream& out) {
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(options.directory));
  std::vector<int64_t> given = options.ids;
  if (given.empty()) {
    QGPU_ASSIGN_OR_RETURN(const std::string text, ReadAll(in));
    QGPU_ASSIGN_OR_RETURN(given, ParseIds(text));
  }
  std::vector<int32_t> ids;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0 || given[i] >= tokenizer->size() || !tokenizer->Contains(static_cast<int32_t>(given[i]))) {
      return absl::InvalidArgumentError(fmt::format("id {} (number {} of the input) is no token of {}/tokenizer.json",
                                                    given[i], i + 1, options.directory));
    }
    ids.push_back(static_cast<int32_t>(given[i]));
  }
  out << ordered_json{{"text", tokenizer->Decode(ids, options.skip_special)}}.dump() << "\n";
  return kExitGood;
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of a text, as JSON");
  command->add_option("DIR", options->directory, "Folder of the base model (tokenizer.json)")->required();
  CLI::Option* text = command->add_option("--text", options->text, "The text (default: standard input)");
  command->add_flag("--as-text", options->as_text, "Take special tokens in the text as text");
  command->add_flag("--chat", options->chat, "The input is a conversation as JSON, for the chat template");
  command->callback([options, text, &action, &in, &out] {
    options->has_text = text->count() > 0;
    action = [options, &in, &out] { return Tokenize(*options, in, out); };
  });
}

void AddDetokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out) {
  auto options = std::make_shared<DetokenizeOptions>();
  CLI::App* command = app.add_subcommand("detokenize", "Print the text of token ids, as JSON");
  command->add_option("DIR", options->directory, "Folder of the base model (tokenizer.json)")->required();
  command->add_option("--ids", options->ids, "The ids (default: standard input)")->delimiter(',');
  command->add_flag("--skip-special", options->skip_special, "Leave special tokens out");
  command->callback(
      [options, &action, &in, &out] { action = [options, &in, &out] { return Detokenize(*options, in, out); }; });
}

}  // namespace qgpu
