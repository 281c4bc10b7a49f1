#include "model/text/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "model/text/jinja/filters.h"

namespace qgpu::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int kMostDepth = 60;    // of the parser's recursion
constexpr int kMostHeight = 150;  // of an expression's tree
constexpr size_t kMostParts = 10'000;

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

}  // namespace

class ExpressionParser::Depth {
 public:
  explicit Depth(int& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }

 private:
  int& depth_;
};

ExpressionPtr ExpressionParser::Make(Kind kind, std::string name) const {
  return std::make_unique<Expression>(Expression{kind, tokens_.Peek().line, std::move(name)});
}

ExpressionParser::Result ExpressionParser::Measured(ExpressionPtr expression) const {
  int height = 0;
  for (const ExpressionPtr& operand : expression->operands) {
    if (operand != nullptr) height = std::max(height, operand->height);
  }
  for (const Argument& argument : expression->arguments) height = std::max(height, argument.value->height);
  expression->height = height + 1;
  if (expression->operands.size() > kMostParts) return tokens_.Error("an expression of too many parts");
  if (expression->height > kMostHeight)
    return tokens_.Error("an expression with too many operations inside each other");
  return expression;
}

template <typename... Operands>
ExpressionParser::Result ExpressionParser::Join(Kind kind, std::string name, int line, Operands... operands) const {
  ExpressionPtr expression = Make(kind, std::move(name));
  expression->line = line;
  (expression->operands.push_back(std::move(operands)), ...);
  return Measured(std::move(expression));
}

ExpressionParser::Result ExpressionParser::Full() {
  const Depth depth(depth_);
  if (depth_ > kMostDepth) return tokens_.Error("expressions nested too deeply");
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr value, Or());
  while (tokens_.IsName("if")) {
    const int line = tokens_.Next().line;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr test, Or());
    ExpressionPtr other;
    if (tokens_.SkipName("else")) {
      QGPU_ASSIGN_OR_RETURN(other, Full());
    }
    QGPU_ASSIGN_OR_RETURN(value, Join(Kind::kCondition, "", line, std::move(value), std::move(test), std::move(other)));
  }
  return value;
}

ExpressionParser::Result ExpressionParser::Tuple(bool conditions) {
  const auto one = [&] { return conditions ? Full() : Or(); };
  const int line = tokens_.Peek().line;
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr first, one());
  if (!tokens_.IsOperator(",")) return first;
  ExpressionPtr tuple = Make(Kind::kTuple);
  tuple->line = line;
  tuple->operands.push_back(std::move(first));
  while (tokens_.SkipOperator(",")) {
    const Token::Kind next = tokens_.Peek().kind;
    if (next == Token::Kind::kPrintEnd || next == Token::Kind::kBlockEnd || tokens_.IsOperator(")") ||
        tokens_.IsName("in"))
      break;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr element, one());
    tuple->operands.push_back(std::move(element));
  }
  return Measured(std::move(tuple));
}

ExpressionParser::Result ExpressionParser::Or() {
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr left, And());
  while (tokens_.IsName("or")) {
    const int line = tokens_.Next().line;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr right, And());
    QGPU_ASSIGN_OR_RETURN(left, Join(Kind::kLogic, "or", line, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::And() {
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr left, Not());
  while (tokens_.IsName("and")) {
    const int line = tokens_.Next().line;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr right, Not());
    QGPU_ASSIGN_OR_RETURN(left, Join(Kind::kLogic, "and", line, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::Not() {
  if (!tokens_.IsName("not")) return Comparison();
  const Depth depth(depth_);
  if (depth_ > kMostDepth) return tokens_.Error("expressions nested too deeply");
  const int line = tokens_.Next().line;
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr operand, Not());
  return Join(Kind::kUnary, "not", line, std::move(operand));
}

ExpressionParser::Result ExpressionParser::Comparison() {
  const int line = tokens_.Peek().line;
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr first, Sum());
  ExpressionPtr compare = Make(Kind::kCompare);
  compare->line = line;
  compare->operands.push_back(std::move(first));
  while (true) {
    const Token& token = tokens_.Peek();
    std::string sign;
    if (token.kind == Token::Kind::kOperator && IsOneOf(token.text, {"==", "!=", "<", "<=", ">", ">="})) {
      sign = tokens_.Next().text;
    } else if (tokens_.SkipName("in")) {
      sign = "in";
    } else if (tokens_.IsName("not") && tokens_.Peek(1).kind == Token::Kind::kName && tokens_.Peek(1).text == "in") {
      tokens_.Next();
      tokens_.Next();
      sign = "not in";
    } else {
      break;
    }
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr operand, Sum());
    compare->names.push_back(std::move(sign));
    compare->operands.push_back(std::move(operand));
  }
  if (compare->names.empty()) return std::move(compare->operands[0]);
  return Measured(std::move(compare));
}

ExpressionParser::Result ExpressionParser::LeftToRight(Level operand, std::initializer_list<std::string_view> signs) {
  QGPU_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
  while (tokens_.Peek().kind == Token::Kind::kOperator && IsOneOf(tokens_.Peek().text, signs)) {
    const Token& sign = tokens_.Next();
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
    QGPU_ASSIGN_OR_RETURN(left, Join(Kind::kBinary, sign.text, sign.line, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::Sum() { return LeftToRight(&ExpressionParser::Concatenation, {"+", "-"}); }
ExpressionParser::Result ExpressionParser::Concatenation() { return LeftToRight(&ExpressionParser::Product, {"~"}); }
ExpressionParser::Result ExpressionParser::Product() {
  return LeftToRight(&ExpressionParser::Power, {"*", "/", "//", "%"});
}
ExpressionParser::Result ExpressionParser::Power() { return LeftToRight(&ExpressionParser::Unary, {"**"}); }

ExpressionParser::Result ExpressionParser::UnaryWith(bool filters) {
  const Depth depth(depth_);
  if (depth_ > kMostDepth) return tokens_.Error("expressions nested too deeply");
  ExpressionPtr operand;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const Token& sign = tokens_.Next();
    QGPU_ASSIGN_OR_RETURN(operand, UnaryWith(false));
    QGPU_ASSIGN_OR_RETURN(operand, Join(Kind::kUnary, sign.text, sign.line, std::move(operand)));
  } else {
    QGPU_ASSIGN_OR_RETURN(operand, Primary());
  }
  QGPU_ASSIGN_OR_RETURN(operand, Postfix(std::move(operand)));
  return filters ? Filters(std::move(operand)) : Result(std::move(operand));
}

ExpressionParser::Result ExpressionParser::Primary() {
  if (tokens_.SkipOperator("(")) {
    ExpressionPtr inner;
    if (tokens_.IsOperator(")")) {
      inner = Make(Kind::kTuple);
    } else {
      QGPU_ASSIGN_OR_RETURN(inner, Tuple(true));
    }
    QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ")", "\")\""));
    return inner;
  }
  if (tokens_.IsOperator("[")) return ListLiteral();
  if (tokens_.IsOperator("{")) return DictLiteral();
  return Literal();
}

ExpressionParser::Result ExpressionParser::Literal() {
  const Token& token = tokens_.Peek();
  ExpressionPtr constant = Make(Kind::kConstant);
  switch (token.kind) {
    case Token::Kind::kString: {
      std::string text;
      while (tokens_.Peek().kind == Token::Kind::kString) text += tokens_.Next().text;
      constant->constant = Value(std::move(text));
      return constant;
    }
    case Token::Kind::kInteger: {
      int64_t number = 0;
      const char* const end = token.text.data() + token.text.size();
      const auto result = std::from_chars(token.text.data(), end, number);
      if (result.ec != std::errc() || result.ptr != end)
        return tokens_.Error(fmt::format("the number {} is not supported", token.text));
      constant->constant = Value(number);
      break;
    }
    case Token::Kind::kFloat: {
      double number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      constant->constant = Value(number);
      break;
    }
    case Token::Kind::kName:
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        constant->constant = Value(token.text[0] == 't' || token.text[0] == 'T');
      } else if (token.text == "none" || token.text == "None") {
        constant->constant = Value::None();
      } else {
        constant->kind = Kind::kName;
        constant->name = token.text;
      }
      break;
    default:
      return tokens_.Error(fmt::format("a value expected, not {}", Shown(token)));
  }
  tokens_.Next();
  return constant;
}

ExpressionParser::Result ExpressionParser::ListLiteral() {
  ExpressionPtr list = Make(Kind::kList);
  tokens_.Next();
  while (!tokens_.IsOperator("]")) {
    if (!list->operands.empty()) QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ",", "\",\" or \"]\""));
    if (tokens_.IsOperator("]")) break;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr element, Full());
    list->operands.push_back(std::move(element));
  }
  tokens_.Next();
  return Measured(std::move(list));
}

ExpressionParser::Result ExpressionParser::DictLiteral() {
  ExpressionPtr dict = Make(Kind::kDict);
  tokens_.Next();
  while (!tokens_.IsOperator("}")) {
    if (!dict->operands.empty()) QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ",", "\",\" or \"}\""));
    if (tokens_.IsOperator("}")) break;
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr key, Full());
    QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ":", "\":\""));
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr value, Full());
    dict->operands.push_back(std::move(key));
    dict->operands.push_back(std::move(value));
  }
  tokens_.Next();
  return Measured(std::move(dict));
}

ExpressionParser::Result ExpressionParser::Postfix(ExpressionPtr operand) {
  while (true) {
    const int line = tokens_.Peek().line;
    if (tokens_.SkipOperator(".")) {
      const Token& name = tokens_.Peek();
      QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "a name after \".\""));
      QGPU_ASSIGN_OR_RETURN(operand, Join(Kind::kAttribute, name.text, line, std::move(operand)));
    } else if (tokens_.IsOperator("[")) {
      QGPU_ASSIGN_OR_RETURN(operand, Subscript(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      QGPU_ASSIGN_OR_RETURN(std::vector<Argument> arguments, Arguments());
      ExpressionPtr call = Make(Kind::kCall);
      call->line = line;
      call->operands.push_back(std::move(operand));
      call->arguments = std::move(arguments);
      QGPU_ASSIGN_OR_RETURN(operand, Measured(std::move(call)));
    } else {
      return operand;
    }
  }
}

ExpressionParser::Result ExpressionParser::Subscript(ExpressionPtr operand) {
  const int line = tokens_.Next().line;
  ExpressionPtr parts[3];
  int part = 0;
  bool slice = false;
  while (!tokens_.IsOperator("]")) {
    if (tokens_.SkipOperator(":")) {
      slice = true;
      if (++part > 2) return tokens_.Error("a slice of more than three parts");
      continue;
    }
    if (parts[part] != nullptr) return tokens_.Error(fmt::format("\"]\" expected, not {}", Shown(tokens_.Peek())));
    QGPU_ASSIGN_OR_RETURN(parts[part], Full());
  }
  if (!slice && parts[0] == nullptr) return tokens_.Error("a subscript expected");
  tokens_.Next();
  if (!slice) return Join(Kind::kSubscript, "", line, std::move(operand), std::move(parts[0]));
  return Join(Kind::kSlice, "", line, std::move(operand), std::move(parts[0]), std::move(parts[1]),
              std::move(parts[2]));
}

absl::StatusOr<std::vector<Argument>> ExpressionParser::Arguments() {
  std::vector<Argument> arguments;
  tokens_.Next();
  while (!tokens_.IsOperator(")")) {
    if (!arguments.empty()) QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kOperator, ",", "\",\" or \")\""));
    if (tokens_.IsOperator(")")) break;
    if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) return tokens_.Error("arguments with * are not supported");
    Argument argument;
    const bool named = tokens_.Peek().kind == Token::Kind::kName && tokens_.Peek(1).kind == Token::Kind::kOperator &&
                       tokens_.Peek(1).text == "=";
    if (named) {
      argument.name = tokens_.Next().text;
      tokens_.Next();
    } else if (!arguments.empty() && !arguments.back().name.empty()) {
      return tokens_.Error("an argument by position after one by name");
    }
    QGPU_ASSIGN_OR_RETURN(argument.value, Full());
    arguments.push_back(std::move(argument));
  }
  tokens_.Next();
  return arguments;
}

ExpressionParser::Result ExpressionParser::Filters(ExpressionPtr operand) {
  while (true) {
    const int line = tokens_.Peek().line;
    if (tokens_.SkipOperator("|")) {
      const Token& name = tokens_.Peek();
      QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of a filter"));
      if (!IsFilter(name.text)) return tokens_.Error(fmt::format("the filter \"{}\" is not supported", name.text));
      ExpressionPtr filter = Make(Kind::kFilter, name.text);
      filter->line = line;
      filter->operands.push_back(std::move(operand));
      if (tokens_.IsOperator("(")) {
        QGPU_ASSIGN_OR_RETURN(filter->arguments, Arguments());
      }
      QGPU_ASSIGN_OR_RETURN(operand, Measured(std::move(filter)));
    } else if (tokens_.SkipName("is")) {
      QGPU_ASSIGN_OR_RETURN(operand, Test(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      return tokens_.Error("a call of what a filter gives is not supported");
    } else {
      return operand;
    }
  }
}

ExpressionParser::Result ExpressionParser::Test(ExpressionPtr operand) {
  const int line = tokens_.Peek().line;
  const bool negated = tokens_.SkipName("not");
  const Token& name = tokens_.Peek();
  QGPU_RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kName, "", "the name of a test"));
  if (!IsTest(name.text)) return tokens_.Error(fmt::format("the test \"{}\" is not supported", name.text));
  ExpressionPtr test = Make(Kind::kTest, name.text);
  test->line = line;
  test->operands.push_back(std::move(operand));
  const Token& next = tokens_.Peek();
  const bool is_value = next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
                        next.kind == Token::Kind::kFloat ||
                        (next.kind == Token::Kind::kName && !IsOneOf(next.text, {"else", "or", "and", "is"})) ||
                        (next.kind == Token::Kind::kOperator && IsOneOf(next.text, {"[", "{"}));
  if (tokens_.IsOperator("(")) {
    QGPU_ASSIGN_OR_RETURN(test->arguments, Arguments());
  } else if (tokens_.IsName("is")) {
    return tokens_.Error("a test of a test");
  } else if (is_value) {
    QGPU_ASSIGN_OR_RETURN(ExpressionPtr argument, Primary());
    QGPU_ASSIGN_OR_RETURN(argument, Postfix(std::move(argument)));
    test->arguments.push_back({"", std::move(argument)});
  }
  QGPU_ASSIGN_OR_RETURN(test, Measured(std::move(test)));
  return negated ? Join(Kind::kUnary, "not", line, std::move(test)) : Result(std::move(test));
}

}  // namespace qgpu::jinja
