// Function bodies: scopes, declarations, labels and instructions.
#include <algorithm>
#include <climits>

#include "lowering/ptx/parser.h"

namespace qgpu::ptx {

absl::Status Parser::ParseBody(Function* function) {
  FunctionScopes scopes(function, &module_names_);
  function_ = function;
  scopes_ = &scopes;
  scopes.Push();
  for (std::vector<Variable>* parameters : {&function->parameters, &function->return_parameters}) {
    for (const Variable& parameter : *parameters) {
      if (parameter.space == Space::kReg) {
        scopes.DeclareRegister(parameter.name, parameter.type, parameter.vector);
      } else {
        scopes.Reserve(parameter.name);
      }
    }
  }
  absl::Status status = Expect("{");
  if (status.ok()) scopes.Push();
  while (status.ok() && scopes.Depth() > 1) status = ParseStatement();
  if (status.ok()) {
    scopes.Pop();
    status = CheckBranches(*function);
  }
  function_ = nullptr;
  scopes_ = nullptr;
  return status;
}

absl::Status Parser::ParseStatement() {
  const Token& token = Peek();
  if (TakeIf(";")) return absl::OkStatus();
  if (TakeIf("{")) {
    if (scopes_->Depth() >= kMaxNesting) return ErrorHere(fmt::format("scopes nested more than {} deep", kMaxNesting));
    scopes_->Push();
    return absl::OkStatus();
  }
  if (TakeIf("}")) {
    scopes_->Pop();
    return absl::OkStatus();
  }
  if (token.kind == Token::Kind::kDot) return ParseBodyDirective(lexer_.Take());
  if (token.kind == Token::Kind::kIdentifier && lexer_.PeekSecond().Is(":")) return ParseLabel();
  if (token.kind == Token::Kind::kIdentifier || token.Is("@")) return ParseInstruction();
  return Unexpected("a statement");
}

absl::Status Parser::ParseBodyDirective(const Token& directive) {
  const std::string_view word = directive.text;
  if (word == "reg") return ParseRegisters();
  if (word == "loc") return ParseLoc();
  for (Space space : {Space::kGlobal, Space::kShared, Space::kConst, Space::kLocal, Space::kParam}) {
    if (word == SpaceName(space)) return ParseBodyVariables(space);
  }
  if (word == "pragma") {
    while (Peek().kind != Token::Kind::kEnd && !Peek().Is(";")) lexer_.Take();
    return Expect(";");
  }
  return lexer_.Error(directive.line, fmt::format("unknown directive '.{}'", word));
}

absl::Status Parser::ParseRegisters() {
  QGPU_ASSIGN_OR_RETURN(const Variable head, ParseVariableHead(Space::kReg));
  do {
    const int line = Peek().line;
    QGPU_ASSIGN_OR_RETURN(const std::string_view name, ExpectName("a register name"));
    bool is_new;
    if (TakeIf("<")) {
      QGPU_ASSIGN_OR_RETURN(const uint64_t count, ExpectInteger("a number of registers"));
      QGPU_RETURN_IF_ERROR(Expect(">"));
      is_new = scopes_->DeclareRegisterRange(name, count, head.type, head.vector);
    } else if (IsSpecialRegister(name)) {
      return lexer_.Error(line, fmt::format("{} is a special register", name));
    } else {
      is_new = scopes_->DeclareRegister(name, head.type, head.vector);
    }
    if (!is_new) return lexer_.Error(line, fmt::format("{} is declared twice", name));
  } while (TakeIf(","));
  return Expect(";");
}

absl::Status Parser::ParseBodyVariables(Space space) {
  QGPU_ASSIGN_OR_RETURN(const Variable head, ParseVariableHead(space));
  do {
    Variable variable = head;
    QGPU_RETURN_IF_ERROR(ParseDeclarator(&variable));
    const int line = variable.ptx_line;
    const std::string name = variable.name;
    if (!scopes_->DeclareVariable(std::move(variable))) {
      return lexer_.Error(line, fmt::format("{} is declared twice", name));
    }
  } while (TakeIf(","));
  return Expect(";");
}

absl::Status Parser::ParseLabel() {
  const Token label = lexer_.Take();
  lexer_.Take();
  if (Peek().IsDot("branchtargets")) return ParseBranchTargets(label);
  if (Peek().IsDot("callprototype") || Peek().IsDot("calltargets")) {
    while (Peek().kind != Token::Kind::kEnd && !Peek().Is(";")) lexer_.Take();
    function_->call_prototypes.emplace_back(label.text);
    return Expect(";");
  }
  if (!scopes_->DeclareLabel(label.text, label.line)) {
    return lexer_.Error(label.line, fmt::format("{} is declared twice", label.text));
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseBranchTargets(const Token& label) {
  lexer_.Take();
  std::vector<std::string_view> targets;
  do {
    QGPU_ASSIGN_OR_RETURN(const std::string_view target, ExpectName("a label"));
    targets.push_back(target);
  } while (TakeIf(","));
  if (!scopes_->DeclareTargets(label.text, targets, label.line)) {
    return lexer_.Error(label.line, fmt::format("{} is declared twice", label.text));
  }
  return Expect(";");
}

// After ".loc": file line column [, function_name symbol [+ offset]] [, inlined_at file line column].
absl::Status Parser::ParseLoc() {
  constexpr size_t kMaxChain = 16;
  const auto parse_position = [&]() -> absl::StatusOr<Position> {
    int numbers[3];
    for (int& number : numbers) {
      QGPU_ASSIGN_OR_RETURN(const uint64_t value, ExpectInteger("a file, line or column number"));
      number = static_cast<int>(std::min<uint64_t>(value, INT_MAX));
    }
    return Position{numbers[0], numbers[1], numbers[2]};
  };
  const auto key = [](const Position& p) {
    return (uint64_t{static_cast<uint32_t>(p.file)} << 44) ^ (uint64_t{static_cast<uint32_t>(p.line)} << 16) ^
           static_cast<uint32_t>(p.column);
  };
  QGPU_ASSIGN_OR_RETURN(const Position position, parse_position());
  InlineChain chain = {position};
  while (TakeIf(",")) {
    QGPU_ASSIGN_OR_RETURN(const std::string_view word, ExpectName("function_name or inlined_at"));
    if (word == "function_name") {
      QGPU_RETURN_IF_ERROR(ExpectName("a label").status());
      QGPU_RETURN_IF_ERROR(ParseOffset().status());
    } else if (word == "inlined_at") {
      QGPU_ASSIGN_OR_RETURN(const Position caller, parse_position());
      const auto outer = last_chain_.find(key(caller));
      if (outer == last_chain_.end()) {
        chain.push_back(caller);
      } else {
        const InlineChain& callers = chains_[outer->second];
        chain.insert(chain.end(), callers.begin(), callers.end());
      }
      if (chain.size() > kMaxChain) chain.erase(chain.begin() + kMaxChain - 1, chain.end() - 1);
    } else {
      return ErrorHere(fmt::format("unknown attribute '{}' of .loc", word));
    }
  }
  current_chain_ = static_cast<int>(chains_.size());
  last_chain_[key(position)] = current_chain_;
  chains_.push_back(std::move(chain));
  return absl::OkStatus();
}

absl::Status Parser::ParseInstruction() {
  constexpr size_t kMaxModifiers = 64;
  Instruction instruction;
  instruction.location.ptx_line = Peek().line;
  if (TakeIf("@")) {
    const bool negated = TakeIf("!");
    if (Peek().kind != Token::Kind::kIdentifier) return Unexpected("a predicate register");
    QGPU_ASSIGN_OR_RETURN(Operand guard, ParseName());
    if (guard.kind != Operand::Kind::kRegister || function_->registers[guard.index].type != "pred") {
      return ErrorHere(fmt::format("{} is not a predicate register", guard.name));
    }
    guard.negated = negated;
    instruction.guard = std::move(guard);
    instruction.location.ptx_line = Peek().line;
  }
  QGPU_ASSIGN_OR_RETURN(instruction.opcode, ExpectName("an instruction"));
  while (Peek().kind == Token::Kind::kDot) {
    if (instruction.modifiers.size() >= kMaxModifiers) return ErrorHere("too many modifiers");
    instruction.modifiers.emplace_back(lexer_.Take().text);
  }
  const bool is_call = instruction.opcode == "call";
  if (!Peek().Is(";")) {
    do {
      const bool is_name = Peek().kind == Token::Kind::kIdentifier;
      QGPU_ASSIGN_OR_RETURN(Operand operand, ParseOperand(is_call, 0));
      const bool may_be_label =
          is_name && operand.kind == Operand::Kind::kSymbol && operand.value == 0 && operand.index < 0;
      if (may_be_label) scopes_->NotePossibleLabel(operand.name, instruction.operands.size());
      instruction.operands.push_back(std::move(operand));
    } while (TakeIf(","));
  }
  QGPU_RETURN_IF_ERROR(Expect(";"));
  if (current_chain_ != 0) {
    const Position& position = chains_[current_chain_].front();
    instruction.location.file = position.file;
    instruction.location.line = position.line;
    instruction.location.column = position.column;
  }
  function_->instructions.push_back(std::move(instruction));
  chain_of_.back().push_back(current_chain_);
  return absl::OkStatus();
}

// Every branch has a target.
absl::Status Parser::CheckBranches(const Function& function) const {
  for (const Instruction& instruction : function.instructions) {
    if (instruction.opcode != "bra") continue;
    if (instruction.operands.size() != 1) {
      return lexer_.Error(instruction.location.ptx_line, "a branch has one label");
    }
    if (instruction.operands[0].kind != Operand::Kind::kLabel) {
      return lexer_.Error(instruction.location.ptx_line,
                          fmt::format("label {} is not defined", ToString(instruction.operands[0])));
    }
  }
  for (const BranchTargets& list : function.branch_targets) {
    if (std::find(list.targets.begin(), list.targets.end(), -1) != list.targets.end()) {
      return lexer_.Error(list.ptx_line, fmt::format("{} names a label that is not defined", list.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace qgpu::ptx
