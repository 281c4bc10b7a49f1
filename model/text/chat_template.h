// A conversation as the text that the base model was trained on: the chat template of its folder, run by an interpreter
// of the part of Jinja that such templates use (docs/TOKENIZER.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "nlohmann/json_fwd.hpp"

namespace qgpu {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;         // end with the start of the assistant's turn
  std::optional<bool> enable_thinking = {};  // false: with an empty think block
};

// Longest template that is read.
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

class ChatTemplate {
 public:
  // From DIRECTORY/chat_template.jinja, else `chat_template` of DIRECTORY/tokenizer_config.json (a string, or a list of
  // which the one named "default" is taken). kNotFound: there is none. kInvalidArgument: a malformed file; a template
  // that is not supported, with the line and the name of what is not.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Open(const std::string& directory);
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source);

  ~ChatTemplate();

  // The text of a conversation. Thread-safe. kInvalidArgument: a message is not valid UTF-8, or the template refuses
  // the conversation (with the line).
  absl::StatusOr<std::string> Render(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;

  // The variables that Render gives to the template. kInvalidArgument: a message is not valid UTF-8.
  static absl::StatusOr<nlohmann::ordered_json> Variables(const std::vector<ChatMessage>& messages,
                                                          const ChatOptions& options);

  // The same with every variable that the template knows: {"messages": [...], "tools": ..., "enable_thinking": ...}.
  // As with Hugging Face, `tools` and `documents` are None and `add_generation_prompt` false where they are missing,
  // and the special tokens of tokenizer_config.json are variables as well (`bos_token`, `eos_token`, ...).
  absl::StatusOr<std::string> RenderJson(const nlohmann::ordered_json& variables) const;

 private:
  struct Parsed;
  ChatTemplate();
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace qgpu
