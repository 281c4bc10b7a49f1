// The tokens of a template as its parsers read them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/lexer.h"

namespace qgpu::jinja {

// The tokens, and how far they are read. Shared by the parsers of expressions and of statements.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& Next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool IsName(std::string_view name) const { return Peek().kind == Token::Kind::kName && Peek().text == name; }
  bool IsOperator(std::string_view sign) const { return Peek().kind == Token::Kind::kOperator && Peek().text == sign; }
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view sign);
  absl::Status Expect(Token::Kind kind, std::string_view text, std::string_view what);
  absl::Status Error(const std::string& what) const;  // at the present token

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// A token as messages name it.
std::string Shown(const Token& token);

}  // namespace qgpu::jinja
