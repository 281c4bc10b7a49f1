// Operands and constant expressions.
#include <algorithm>
#include <climits>

#include "lowering/ptx/parser.h"

namespace qgpu::ptx {
namespace {

constexpr std::string_view kSpecialRegisters[] = {"%tid",
                                                  "%ntid",
                                                  "%laneid",
                                                  "%warpid",
                                                  "%nwarpid",
                                                  "%ctaid",
                                                  "%nctaid",
                                                  "%smid",
                                                  "%nsmid",
                                                  "%gridid",
                                                  "%is_explicit_cluster",
                                                  "%clusterid",
                                                  "%nclusterid",
                                                  "%cluster_ctaid",
                                                  "%cluster_nctaid",
                                                  "%cluster_ctarank",
                                                  "%cluster_nctarank",
                                                  "%lanemask_eq",
                                                  "%lanemask_le",
                                                  "%lanemask_lt",
                                                  "%lanemask_ge",
                                                  "%lanemask_gt",
                                                  "%clock",
                                                  "%clock_hi",
                                                  "%clock64",
                                                  "%globaltimer",
                                                  "%globaltimer_lo",
                                                  "%globaltimer_hi",
                                                  "%total_smem_size",
                                                  "%aggr_smem_size",
                                                  "%dynamic_smem_size",
                                                  "%current_graph_exec"};
// Numbered ones.
constexpr std::string_view kSpecialRegisterPrefixes[] = {"%pm", "%envreg", "%reserved_smem_"};

// Precedence of a binary operator, 0 for none; ?: is 1 and handled apart.
int Precedence(const Token& token) {
  static constexpr struct {
    std::string_view op;
    int precedence;
  } kOperators[] = {{"||", 2}, {"&&", 3}, {"|", 4},  {"^", 5},  {"&", 6},  {"==", 7}, {"!=", 7}, {"<", 8},  {"<=", 8},
                    {">", 8},  {">=", 8}, {"<<", 9}, {">>", 9}, {"+", 10}, {"-", 10}, {"*", 11}, {"/", 11}, {"%", 11}};
  if (token.kind != Token::Kind::kPunctuation) return 0;
  for (const auto& entry : kOperators) {
    if (entry.op == token.text) return entry.precedence;
  }
  return 0;
}

uint64_t Shift(std::string_view op, Constant a, uint64_t amount) {
  const bool negative = !a.is_unsigned && static_cast<int64_t>(a.bits) < 0;
  if (op == "<<") return amount > 63 ? 0 : a.bits << amount;
  if (amount > 63) return negative ? ~uint64_t{0} : 0;
  return negative ? static_cast<uint64_t>(static_cast<int64_t>(a.bits) >> amount) : a.bits >> amount;
}

bool Less(Constant a, Constant b, bool is_unsigned) {
  return is_unsigned ? a.bits < b.bits : static_cast<int64_t>(a.bits) < static_cast<int64_t>(b.bits);
}

// Quotient or remainder; the divisor is not zero.
uint64_t Divide(bool quotient, Constant a, Constant b, bool is_unsigned) {
  if (is_unsigned) return quotient ? a.bits / b.bits : a.bits % b.bits;
  const auto x = static_cast<int64_t>(a.bits), y = static_cast<int64_t>(b.bits);
  if (y == -1) return quotient ? 0 - a.bits : 0;
  return static_cast<uint64_t>(quotient ? x / y : x % y);
}

Constant Evaluate(std::string_view op, Constant a, Constant b) {
  const bool is_unsigned = a.is_unsigned || b.is_unsigned;
  if (op == "+") return {a.bits + b.bits, is_unsigned};
  if (op == "-") return {a.bits - b.bits, is_unsigned};
  if (op == "*") return {a.bits * b.bits, is_unsigned};
  if (op == "/" || op == "%") return {Divide(op == "/", a, b, is_unsigned), is_unsigned};
  if (op == "&") return {a.bits & b.bits, is_unsigned};
  if (op == "|") return {a.bits | b.bits, is_unsigned};
  if (op == "^") return {a.bits ^ b.bits, is_unsigned};
  if (op == "<<" || op == ">>") return {Shift(op, a, b.bits), a.is_unsigned};
  bool result = false;
  if (op == "==") result = a.bits == b.bits;
  if (op == "!=") result = a.bits != b.bits;
  if (op == "<") result = Less(a, b, is_unsigned);
  if (op == ">") result = Less(b, a, is_unsigned);
  if (op == "<=") result = !Less(b, a, is_unsigned);
  if (op == ">=") result = !Less(a, b, is_unsigned);
  if (op == "&&") result = a.bits != 0 && b.bits != 0;
  if (op == "||") result = a.bits != 0 || b.bits != 0;
  return {result ? uint64_t{1} : 0, false};
}

Operand FloatOperand(const Token& token, bool negative) {
  Operand operand;
  operand.kind = Operand::Kind::kFloat;
  operand.is_double = token.is_double;
  operand.value = token.value ^ (negative ? uint64_t{1} << (token.is_double ? 63 : 31) : 0);
  return operand;
}

}  // namespace

bool IsSpecialRegister(std::string_view name) {
  if (std::find(std::begin(kSpecialRegisters), std::end(kSpecialRegisters), name) != std::end(kSpecialRegisters)) {
    return true;
  }
  return std::any_of(std::begin(kSpecialRegisterPrefixes), std::end(kSpecialRegisterPrefixes),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

absl::StatusOr<Constant> Parser::ParseConstant(int minimum_precedence, int depth) {
  if (depth > kMaxNesting) return ErrorHere(fmt::format("expression nested more than {} deep", kMaxNesting));
  QGPU_ASSIGN_OR_RETURN(Constant left, ParseUnary(depth));
  while (const int precedence = Precedence(Peek())) {
    if (precedence < minimum_precedence) break;
    const Token op = lexer_.Take();
    QGPU_ASSIGN_OR_RETURN(const Constant right, ParseConstant(precedence + 1, depth + 1));
    if ((op.text == "/" || op.text == "%") && right.bits == 0) {
      return lexer_.Error(op.line, "division by zero in a constant expression");
    }
    left = Evaluate(op.text, left, right);
  }
  if (minimum_precedence > 1 || !Peek().Is("?")) return left;
  lexer_.Take();
  QGPU_ASSIGN_OR_RETURN(const Constant when_true, ParseConstant(1, depth + 1));
  QGPU_RETURN_IF_ERROR(Expect(":"));
  QGPU_ASSIGN_OR_RETURN(const Constant when_false, ParseConstant(1, depth + 1));
  return left.bits != 0 ? when_true : when_false;
}

absl::StatusOr<Constant> Parser::ParseUnary(int depth) {
  if (depth > kMaxNesting) return ErrorHere(fmt::format("expression nested more than {} deep", kMaxNesting));
  if (Peek().kind == Token::Kind::kInteger) {
    const Token token = lexer_.Take();
    return Constant{token.value, token.is_unsigned};
  }
  if (Peek().IsWord("WARP_SZ")) {
    lexer_.Take();
    return Constant{32, false};
  }
  for (const char op : {'+', '-', '!', '~'}) {
    if (!TakeIf(std::string_view(&op, 1))) continue;
    QGPU_ASSIGN_OR_RETURN(Constant value, ParseUnary(depth + 1));
    if (op == '-') value.bits = 0 - value.bits;
    if (op == '~') value.bits = ~value.bits;
    if (op == '!') value = {value.bits == 0 ? uint64_t{1} : 0, false};
    return value;
  }
  if (TakeIf("(")) return ParseCast(depth);
  return Unexpected("an integer expression");
}

// After "(": a cast "(.s64) x" or an expression in parentheses.
absl::StatusOr<Constant> Parser::ParseCast(int depth) {
  if (Peek().IsDot("s64") || Peek().IsDot("u64")) {
    const bool is_unsigned = lexer_.Take().text == "u64";
    QGPU_RETURN_IF_ERROR(Expect(")"));
    QGPU_ASSIGN_OR_RETURN(Constant value, ParseUnary(depth + 1));
    value.is_unsigned = is_unsigned;
    return value;
  }
  QGPU_ASSIGN_OR_RETURN(const Constant value, ParseConstant(1, depth + 1));
  QGPU_RETURN_IF_ERROR(Expect(")"));
  return value;
}

absl::StatusOr<Operand> Parser::ParseConstantOperand() {
  const bool negative = Peek().Is("-") && lexer_.PeekSecond().kind == Token::Kind::kFloat;
  if (negative) lexer_.Take();
  if (Peek().kind == Token::Kind::kFloat) return FloatOperand(lexer_.Take(), negative);
  QGPU_ASSIGN_OR_RETURN(const Constant constant, ParseConstant(1, 0));
  Operand operand;
  operand.kind = Operand::Kind::kInteger;
  operand.value = constant.bits;
  operand.is_unsigned = constant.is_unsigned;
  return operand;
}

// What may follow a symbol: "+4", "+-4", "-4", or nothing.
absl::StatusOr<uint64_t> Parser::ParseOffset() {
  if (!Peek().Is("+") && !Peek().Is("-")) return uint64_t{0};
  const bool negative = lexer_.Take().text == "-";
  QGPU_ASSIGN_OR_RETURN(const Constant offset, ParseConstant(1, 0));
  return negative ? 0 - offset.bits : offset.bits;
}

// A register, special register or symbol, with its component; symbols are left for the scopes to bind to labels.
absl::StatusOr<Operand> Parser::ParseName() {
  const Token token = lexer_.Take();
  Operand operand;
  operand.name = token.text;
  if (token.text == "_") {
    operand.kind = Operand::Kind::kSink;
    return operand;
  }
  const int index = scopes_ == nullptr ? -1 : scopes_->FindRegister(token.text);
  if (index >= 0) {
    operand.kind = Operand::Kind::kRegister;
    operand.index = index;
    operand.name = function_->registers[index].name;
    if (Peek().kind == Token::Kind::kDot && Peek().glued) operand.component = lexer_.Take().text;
    return operand;
  }
  if (token.text[0] == '%') {
    if (!IsSpecialRegister(token.text)) {
      return lexer_.Error(token.line, fmt::format("register {} is not declared", token.text));
    }
    operand.kind = Operand::Kind::kSpecial;
    if (Peek().kind == Token::Kind::kDot && Peek().glued) operand.name += fmt::format(".{}", lexer_.Take().text);
    return operand;
  }
  operand.kind = Operand::Kind::kSymbol;
  if (scopes_ != nullptr) {
    operand.index = scopes_->FindVariable(token.text);
    if (operand.index >= 0) operand.name = function_->variables[operand.index].name;
  }
  return operand;
}

// After "[".
absl::StatusOr<Operand> Parser::ParseAddress(int depth) {
  Operand address;
  address.kind = Operand::Kind::kAddress;
  if (Peek().kind != Token::Kind::kIdentifier || Peek().IsWord("WARP_SZ")) {
    QGPU_ASSIGN_OR_RETURN(const Constant absolute, ParseConstant(1, depth));
    address.value = absolute.bits;
    QGPU_RETURN_IF_ERROR(Expect("]"));
    return address;
  }
  QGPU_ASSIGN_OR_RETURN(Operand base, ParseName());
  address.elements.push_back(std::move(base));
  QGPU_ASSIGN_OR_RETURN(address.value, ParseOffset());
  while (TakeIf(",")) {
    QGPU_ASSIGN_OR_RETURN(Operand element, ParseOperand(false, depth + 1));
    address.elements.push_back(std::move(element));
  }
  QGPU_RETURN_IF_ERROR(Expect("]"));
  return address;
}

// Operands separated by commas up to and with `close`; none is allowed.
absl::StatusOr<std::vector<Operand>> Parser::ParseOperandsUntil(std::string_view close, bool lists, int depth) {
  std::vector<Operand> operands;
  if (TakeIf(close)) return operands;
  do {
    QGPU_ASSIGN_OR_RETURN(Operand operand, ParseOperand(lists, depth + 1));
    operands.push_back(std::move(operand));
  } while (TakeIf(","));
  QGPU_RETURN_IF_ERROR(Expect(close));
  return operands;
}

absl::StatusOr<Operand> Parser::ParseOperand(bool parentheses_are_lists, int depth) {
  if (depth > kMaxNesting) return ErrorHere(fmt::format("operand nested more than {} deep", kMaxNesting));
  if (TakeIf("[")) return ParseAddress(depth);
  Operand operand;
  if (TakeIf("{")) {
    operand.kind = Operand::Kind::kVector;
    QGPU_ASSIGN_OR_RETURN(operand.elements, ParseOperandsUntil("}", false, depth));
    return operand;
  }
  if (parentheses_are_lists && TakeIf("(")) {
    operand.kind = Operand::Kind::kList;
    QGPU_ASSIGN_OR_RETURN(operand.elements, ParseOperandsUntil(")", false, depth));
    return operand;
  }
  const bool negated = Peek().Is("!") && lexer_.PeekSecond().kind == Token::Kind::kIdentifier;
  if (negated) lexer_.Take();
  if (Peek().kind != Token::Kind::kIdentifier || Peek().IsWord("WARP_SZ")) return ParseConstantOperand();
  QGPU_ASSIGN_OR_RETURN(operand, ParseName());
  operand.negated = negated;
  if (operand.kind == Operand::Kind::kSymbol) {
    QGPU_ASSIGN_OR_RETURN(operand.value, ParseOffset());
  } else if (TakeIf("|")) {
    if (Peek().kind != Token::Kind::kIdentifier) return Unexpected("a register");
    QGPU_ASSIGN_OR_RETURN(Operand second, ParseName());
    Operand pair;
    pair.kind = Operand::Kind::kPair;
    pair.elements = {std::move(operand), std::move(second)};
    return pair;
  }
  return operand;
}

}  // namespace qgpu::ptx
