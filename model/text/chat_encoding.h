// A conversation as the ids that a model is fed, such that nobody can write himself another turn: what a message says
// is only its characters, whatever special tokens it spells (docs/TOKENIZER.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json_fwd.hpp"

namespace qgpu {

struct EncodedChat {
  std::string text;  // as rendered
  std::vector<int32_t> ids;
};

// The conversation rendered and encoded. No added token has a character that comes from a message's content; only what
// the assistant wrote may have tokens that are not special (<think>). To the template, the first and last characters of
// added tokens that occur in contents (of Qwen's: < and >) are characters that it does not know; so a template that
// looks for a token in a user's message does not find one. Errors of ChatTemplate::Render and Tokenizer::Encode, and
// kInvalidArgument for a role that is no name (letters, digits, _ - .).
absl::StatusOr<EncodedChat> EncodeChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                       const std::vector<ChatMessage>& messages, const ChatOptions& options = {});

// The same with every variable that the template knows, as ChatTemplate::RenderJson takes them. All strings in
// `messages`, `tools` and `documents` are contents but roles and types that are names; so are keys that spell a token.
absl::StatusOr<EncodedChat> EncodeChatJson(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                           const nlohmann::ordered_json& variables);

}  // namespace qgpu
