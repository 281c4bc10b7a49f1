// Expressions of templates, by recursive descent in Jinja's order of precedence.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/ast.h"
#include "model/text/jinja/token_stream.h"

namespace qgpu::jinja {

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
