// Expressions of templates, by recursive descent in Jinja's order of precedence.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/ast.h"
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

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  absl::StatusOr<ExpressionPtr> Full();  // with `x if y else z`
  // Expressions with commas between are a tuple. Without conditions: what stands between `in` and `if` of a loop.
  absl::StatusOr<ExpressionPtr> Tuple(bool conditions);
  absl::StatusOr<ExpressionPtr> WithoutCondition() { return Or(); }

 private:
  using Result = absl::StatusOr<ExpressionPtr>;
  using Level = Result (ExpressionParser::*)();
  class Depth;

  ExpressionPtr Make(Expression::Kind kind, std::string name = {}) const;
  template <typename... Operands>
  Result Join(Expression::Kind kind, std::string name, int line, Operands... operands) const;
  Result Measured(ExpressionPtr expression) const;  // unless the tree grows too high
  Result LeftToRight(Level operand, std::initializer_list<std::string_view> signs);
  Result Or();
  Result And();
  Result Not();
  Result Comparison();
  Result Sum();
  Result Concatenation();
  Result Product();
  Result Power();
  Result Unary() { return UnaryWith(true); }
  Result UnaryWith(bool filters);
  Result Primary();
  Result Literal();
  Result Postfix(ExpressionPtr operand);
  Result Filters(ExpressionPtr operand);
  Result Subscript(ExpressionPtr operand);
  Result Test(ExpressionPtr operand);
  Result ListLiteral();
  Result DictLiteral();
  absl::StatusOr<std::vector<Argument>> Arguments();

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace qgpu::jinja
