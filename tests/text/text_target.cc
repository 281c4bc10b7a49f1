#include "tests/text/text_target.h"

#include "common/check.h"
#include "model/text/chat_template.h"
#include "model/text/detokenizer.h"
#include "model/text/test_tokenizer.h"
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

using nlohmann::json;

void CheckDecoding(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids) {
  const std::string text = tokenizer->Decode(ids);
  QGPU_CHECK(CheckUtf8(text, "text").ok(), "a decoded text is no UTF-8");
  StreamingDetokenizer stream(tokenizer);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.Push(id);
  QGPU_CHECK(streamed + stream.Finish() == text, "a streamed text differs");
}

const std::shared_ptr<const Tokenizer>& SmallTokenizer() {
  static const std::shared_ptr<const Tokenizer> tokenizer = *Tokenizer::Parse(
      TestTokenizer({{"a", "b"}, {"\u0120", "a"}, {"\u0120a", "b"}, {"\u00c3", "\u00a9"}, {"\u0120", "\u0120"}})
          .dump());
  return tokenizer;
}

}  // namespace

bool FuzzTokenizerFile(const std::string& json) {
  const auto tokenizer = Tokenizer::Parse(json);
  if (!tokenizer.ok()) {
    QGPU_CHECK(tokenizer.status().code() == absl::StatusCode::kInvalidArgument, "a refusal of another kind");
    return false;
  }
  for (const char* text :
       {"The kernel's 12 words.\r\n\n  e\u0301 \u4e2d\u6587 \U0001f600", "<|im_start|>user\n<think>ab   ", "\x7f"}) {
    const auto ids = (*tokenizer)->Encode(text);
    if (!ids.ok()) continue;  // the file's pattern takes too many steps
    for (const int32_t id : *ids) QGPU_CHECK((*tokenizer)->Contains(id), "an id that is no token");
    CheckDecoding(*tokenizer, *ids);
  }
  return true;
}

bool FuzzText(const std::string& text) {
  const auto& tokenizer = SmallTokenizer();
  const auto ids = tokenizer->Encode(text);
  QGPU_CHECK(ids.ok() == CheckUtf8(text, "text").ok(), "valid UTF-8 and nothing else is taken");
  std::vector<int32_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  CheckDecoding(tokenizer, bytes);
  if (!ids.ok()) return false;
  CheckDecoding(tokenizer, *ids);
  // What the special tokens cut apart is normalised apart.
  std::string normalized;
  if (text.find('<') != std::string::npos || !NormalizeNfc(text, normalized)) normalized = text;
  if (text.find('<') == std::string::npos)
    QGPU_CHECK(tokenizer->Decode(*ids) == normalized, "a text does not come back");
  return true;
}

bool FuzzChatTemplate(const std::string& source) {
  const auto chat_template = ChatTemplate::Parse(source);
  if (!chat_template.ok()) return false;
  const nlohmann::ordered_json variables = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}},
        {{"role", "user"}, {"content", "Hi"}},
        {{"role", "assistant"}, {"content", "<think>\nwhy\n</think>\n\n12"}},
        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "na\u00efve"}}}}}}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "dot"}}}}}},
      {"add_generation_prompt", true},
      {"enable_thinking", false}};
  const auto text = (*chat_template)->RenderJson(variables);
  if (!text.ok()) {
    QGPU_CHECK(text.status().code() == absl::StatusCode::kInvalidArgument, "a refusal of another kind");
    return false;
  }
  QGPU_CHECK(CheckUtf8(*text, "text").ok(), "a rendered text is no UTF-8");
  return true;
}

}  // namespace qgpu
