// `qgpu tokenize` and `qgpu detokenize`: the tokenizer and chat template of a base model, as JSON.
#include "cli/text_commands.h"

#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/token_ids.h"
#include "model/text/chat_encoding.h"
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
  std::string directory, ids;
  bool has_ids = false, skip_special = false;
};

// A conversation: a list of messages, for which the assistant is to write next, or an object with all variables of the
// template.
absl::StatusOr<EncodedChat> EncodeConversation(const std::string& directory, const Tokenizer& tokenizer,
                                               const std::string& json) {
  QGPU_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Open(directory));
  ordered_json variables = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (variables.is_array()) variables = {{"messages", std::move(variables)}, {"add_generation_prompt", true}};
  if (!variables.is_object()) {
    return absl::InvalidArgumentError(
        "--chat: the input is no conversation; give [{\"role\": \"user\", \"content\": \"...\"}] or an object with "
        "\"messages\"");
  }
  return EncodeChatJson(*chat_template, tokenizer, variables);
}

absl::StatusOr<ExitCode> Tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(options.directory));
  std::string text = options.text;
  if (!options.has_text) {
    QGPU_ASSIGN_OR_RETURN(text, ReadText(in));
  }
  std::vector<int32_t> ids;
  std::string rendered;
  if (options.chat) {
    QGPU_ASSIGN_OR_RETURN(EncodedChat chat, EncodeConversation(options.directory, *tokenizer, text));
    rendered = "\"text\":" + ordered_json(std::move(chat.text)).dump() + ",";
    ids = std::move(chat.ids);
  } else {
    const auto special = options.as_text ? Tokenizer::SpecialTokens::kAsText : Tokenizer::SpecialTokens::kFound;
    QGPU_ASSIGN_OR_RETURN(ids, tokenizer->Encode(text, special));
  }
  // Written as it goes: a tree of millions of tokens takes gigabytes.
  const char* separator = "";
  out << "{" << rendered << "\"ids\":[";
  for (const int32_t id : ids) out << std::exchange(separator, ",") << id;
  separator = "";
  out << "],\"tokens\":[";
  for (const int32_t id : ids) out << std::exchange(separator, ",") << ordered_json(tokenizer->Text(id)).dump();
  out << "]}\n";
  return kExitGood;
}

absl::StatusOr<ExitCode> Detokenize(const DetokenizeOptions& options, std::istream& in, std::ostream& out) {
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(options.directory));
  std::string text = options.ids;
  if (!options.has_ids) {
    QGPU_ASSIGN_OR_RETURN(text, ReadText(in));
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<int64_t> given, ParseTokenIds(text));
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

absl::StatusOr<std::string> ReadText(std::istream& in) {
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

DataType DataTypeNamed(const std::string& name) {
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    if (name == DataTypeName(type)) return type;
  }
  return DataType::kFloat32;
}

void AddTokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of a text, as JSON");
  command->add_option("DIR", options->directory, "Folder of the base model (tokenizer.json)")->required();
  CLI::Option* text = command->add_option("--text", options->text, "The text (default: standard input)");
  CLI::Option* as_text = command->add_flag("--as-text", options->as_text, "Take special tokens in the text as text");
  command
      ->add_flag("--chat", options->chat,
                 "The input is a conversation as JSON, for the chat template; special tokens in messages are text")
      ->excludes(as_text);
  command->callback([options, text, &action, &in, &out] {
    options->has_text = text->count() > 0;
    action = [options, &in, &out] { return Tokenize(*options, in, out); };
  });
}

void AddDetokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out) {
  auto options = std::make_shared<DetokenizeOptions>();
  CLI::App* command = app.add_subcommand("detokenize", "Print the text of token ids, as JSON");
  command->add_option("DIR", options->directory, "Folder of the base model (tokenizer.json)")->required();
  CLI::Option* ids = command->add_option("--ids,--text", options->ids, "The ids (default: standard input)");
  command->add_flag("--skip-special", options->skip_special, "Leave special tokens out");
  command->callback([options, ids, &action, &in, &out] {
    options->has_ids = ids->count() > 0;
    action = [options, &in, &out] { return Detokenize(*options, in, out); };
  });
}

}  // namespace qgpu
