#include "model/text/chat_encoding.h"

#include <algorithm>
#include <functional>
#include <set>

#include "model/text/jinja/value.h"
#include "model/text/utf8.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

constexpr char32_t kLastMark = 0x10fffd, kFirstMark = 0x100000;  // private use: no text means anything by them

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

bool IsContent(const std::string& variable) {
  return variable == "messages" || variable == "tools" || variable == "documents";
}

// Writes marks for those characters of contents without which no added token can lie in a content or on its border: the
// first and the last ones of all tokens. A template moves marks like any other characters, so that they tell in the
// rendered text what came from a content.
class Marker {
 public:
  // Fails where contents are no UTF-8 or nested too deeply.
  absl::Status ChooseMarks(const Tokenizer& tokenizer, const ordered_json& variables) {
    tokenizer_ = &tokenizer;
    std::set<char32_t> taken(tokenizer.added_token_ends().begin(), tokenizer.added_token_ends().end());
    for (const auto& [name, value] : variables.items()) QGPU_RETURN_IF_ERROR(Collect(value, 0, taken));
    char32_t mark = kLastMark;
    for (size_t i = 0; i < tokenizer.added_token_ends().size(); ++i, --mark) {
      while (mark >= kFirstMark && taken.count(mark) != 0) --mark;
      if (mark < kFirstMark) return absl::InvalidArgumentError("the messages leave no private-use character free");
      marks_.push_back(mark);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ordered_json> MarkMessages(const ordered_json& messages) const {
    if (!messages.is_array()) return Marked(messages, /*of_model=*/false);
    ordered_json result = ordered_json::array();
    for (const ordered_json& message : messages) {
      const bool is_object = message.is_object();
      const auto role = is_object ? message.find("role") : message.end();
      const bool has_role = is_object && role != message.end() && role->is_string();
      if (has_role && !IsName(role->get_ref<const std::string&>())) {
        return absl::InvalidArgumentError(
            fmt::format("messages[{}].role: {} is no name of letters, digits, _ - .", result.size(), role->dump()));
      }
      result.push_back(Marked(message, has_role && *role == "assistant"));
    }
    return result;
  }

  ordered_json Marked(const ordered_json& value, bool of_model) const {
    if (value.is_string()) return MarkedText(value.get_ref<const std::string&>(), of_model);
    ordered_json result = value;
    if (value.is_array()) {
      for (ordered_json& element : result) element = Marked(element, of_model);
    } else if (value.is_object()) {
      result = ordered_json::object();
      for (const auto& [key, element] : value.items()) {
        const bool is_structure = (key == "role" || key == "type") && element.is_string() &&
                                  IsName(element.template get_ref<const std::string&>());
        const bool spells_token = !tokenizer_->FindAddedTokens(tokenizer_->InSearchedForm(key)).empty();
        // Arguments of calls are words of the model that the template writes as it likes: no token is kept in them.
        ordered_json marked = is_structure ? element : Marked(element, of_model && key != "tool_calls");
        result[spells_token ? MarkedText(key, /*of_model=*/false) : key] = std::move(marked);
      }
    }
    return result;
  }

  // The rendered text with the characters back in their places, and these places.
  std::vector<TextRange> Unmark(std::string& rendered) const {
    std::vector<TextRange> places;
    std::string text;
    for (size_t at = 0; at < rendered.size();) {
      const size_t start = at;
      const char32_t character = NextCodePoint(rendered, at);
      const auto mark = character < kFirstMark ? marks_.end() : std::find(marks_.begin(), marks_.end(), character);
      if (mark == marks_.end()) {
        text.append(rendered, start, at - start);
        continue;
      }
      const size_t begin = text.size();
      AppendUtf8(tokenizer_->added_token_ends()[static_cast<size_t>(mark - marks_.begin())], text);
      places.push_back({begin, text.size()});
    }
    rendered = std::move(text);
    return places;
  }

 private:
  static absl::Status Collect(const ordered_json& value, int depth, std::set<char32_t>& taken) {
    if (depth >= jinja::kMostNestedValues) {
      return absl::InvalidArgumentError(fmt::format("values nested more than {} deep", jinja::kMostNestedValues));
    }
    if (value.is_string()) return CollectText(value.get_ref<const std::string&>(), taken);
    if (!value.is_structured()) return absl::OkStatus();
    for (const auto& [key, element] : value.items()) {
      if (value.is_object()) QGPU_RETURN_IF_ERROR(CollectText(key, taken));
      QGPU_RETURN_IF_ERROR(Collect(element, depth + 1, taken));
    }
    return absl::OkStatus();
  }
  static absl::Status CollectText(const std::string& text, std::set<char32_t>& taken) {
    QGPU_RETURN_IF_ERROR(CheckUtf8(text, "a text of the conversation"));
    for (size_t at = 0; at < text.size();) {
      const char32_t character = NextCodePoint(text, at);
      if (character >= kFirstMark) taken.insert(character);
    }
    return absl::OkStatus();
  }

  std::string MarkedText(const std::string& given, bool of_model) const {
    const std::string text = tokenizer_->InSearchedForm(given);
    std::vector<TextRange> kept;
    if (of_model) {
      for (const Tokenizer::Occurrence& token : tokenizer_->FindAddedTokens(text)) {
        if (!tokenizer_->IsSpecial(token.id)) kept.push_back(token.range);
      }
    }
    const std::u32string& ends = tokenizer_->added_token_ends();
    std::string marked;
    auto keep = kept.begin();
    for (size_t at = 0; at < text.size();) {
      while (keep != kept.end() && keep->end <= at) ++keep;
      const bool is_kept = keep != kept.end() && keep->begin <= at;
      const size_t start = at;
      const char32_t character = NextCodePoint(text, at);
      const auto end = is_kept ? ends.end() : std::lower_bound(ends.begin(), ends.end(), character);
      if (end != ends.end() && *end == character) {
        AppendUtf8(marks_[static_cast<size_t>(end - ends.begin())], marked);
      } else {
        marked.append(text, start, at - start);
      }
    }
    return marked;
  }

  const Tokenizer* tokenizer_ = nullptr;
  std::vector<char32_t> marks_;  // for each of the tokenizer's added_token_ends
};

}  // namespace

absl::StatusOr<EncodedChat> EncodeChatJson(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                           const ordered_json& variables) {
  if (!variables.is_object()) return absl::InvalidArgumentError("the variables of a chat template are an object");
  Marker marker;
  QGPU_RETURN_IF_ERROR(marker.ChooseMarks(tokenizer, variables));
  ordered_json marked = variables;
  for (auto& [name, value] : marked.items()) {
    if (name == "messages") {
      QGPU_ASSIGN_OR_RETURN(value, marker.MarkMessages(value));
    } else if (IsContent(name)) {
      value = marker.Marked(value, /*of_model=*/false);
    }
  }
  EncodedChat chat;
  QGPU_ASSIGN_OR_RETURN(chat.text, chat_template.RenderJson(marked));
  const std::vector<TextRange> contents = marker.Unmark(chat.text);
  QGPU_ASSIGN_OR_RETURN(chat.ids, tokenizer.Encode(chat.text, contents));
  return chat;
}

absl::StatusOr<EncodedChat> EncodeChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                       const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const ordered_json variables, ChatTemplate::Variables(messages, options));
  return EncodeChatJson(chat_template, tokenizer, variables);
}

}  // namespace qgpu
