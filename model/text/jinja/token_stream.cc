#include "model/text/jinja/token_stream.h"

namespace qgpu::jinja {

std::string Shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kEnd:
      return "the end of the template";
    case Token::Kind::kPrintEnd:
    case Token::Kind::kBlockEnd:
      return "the end of the tag";
    case Token::Kind::kString:
      return "a string";
    default:
      return fmt::format("\"{}\"", token.text);
  }
}

bool TokenStream::SkipName(std::string_view name) {
  const bool skips = IsName(name);
  if (skips) Next();
  return skips;
}

bool TokenStream::SkipOperator(std::string_view sign) {
  const bool skips = IsOperator(sign);
  if (skips) Next();
  return skips;
}

absl::Status TokenStream::Expect(Token::Kind kind, std::string_view text, std::string_view what) {
  if (Peek().kind != kind || (!text.empty() && Peek().text != text)) {
    return Error(fmt::format("{} expected, not {}", what, Shown(Peek())));
  }
  Next();
  return absl::OkStatus();
}

absl::Status TokenStream::Error(const std::string& what) const {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", Peek().line, what));
}

}  // namespace qgpu::jinja
