// Recursive descent over PTX's statements, private to this directory. The parser's state is one Module, and while a
// function is open a FunctionScopes that turns the names of nested scopes into unique ones.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lowering/ptx/lexer.h"
#include "lowering/ptx/ptx.h"

namespace qgpu::ptx {

// The names of one function body. Registers enter Function::registers when they are first used.
class FunctionScopes {
 public:
  // Names of the module stay as they are; a variable of the body that hides one of them is renamed.
  FunctionScopes(Function* function, const std::unordered_set<std::string>* module_names)
      : function_(function), module_names_(module_names) {}

  void Push();
  // Binds the labels of the innermost scope to what was said about them inside it.
  void Pop();
  int Depth() const { return static_cast<int>(scopes_.size()); }

  // Each returns false when the innermost scope already has the name.
  bool DeclareRegister(std::string_view name, const std::string& type, int vector);
  bool DeclareRegisterRange(std::string_view prefix, uint64_t count, const std::string& type, int vector);
  bool DeclareVariable(Variable variable);
  bool DeclareLabel(std::string_view name, int line);
  bool DeclareTargets(std::string_view name, const std::vector<std::string_view>& targets, int line);

  // Index into Function::registers, or -1.
  int FindRegister(std::string_view name);
  // Index into Function::variables, or -1.
  int FindVariable(std::string_view name) const;
  // Keeps `name`, a parameter, from being given to a variable of the body.
  void Reserve(const std::string& name) { uses_of_name_.try_emplace(name, 1); }
  // Notes that operand `operand` of the next instruction names something that may turn out to be a label.
  void NotePossibleLabel(std::string_view name, size_t operand);

 private:
  struct RegisterDeclaration {
    std::string unique_name;
    std::string type;
    int vector = 1;
    uint64_t count = 0;  // of a range
    int index = -1;      // of a single register that is in use
  };
  struct Scope {
    std::unordered_map<std::string, RegisterDeclaration> registers, ranges;
    std::unordered_map<std::string, int> variables, labels, targets;
    size_t first_reference = 0;
  };
  // A name that waits for its label: an operand of an instruction, or an entry of a list of branch targets.
  struct Reference {
    std::string name;
    bool in_targets = false;
    size_t owner = 0, position = 0;
  };

  std::string UniqueName(std::string_view name);
  bool Taken(const Scope& scope, const std::string& name) const;
  int UseRegister(const std::string& unique_name, const RegisterDeclaration& declaration);
  bool Bind(const Reference& reference, const Scope& scope);

  Function* function_;
  const std::unordered_set<std::string>* module_names_;
  std::vector<Scope> scopes_;
  std::vector<Reference> references_;
  std::unordered_map<std::string, int> uses_of_name_;
  std::unordered_map<std::string, int> used_registers_;  // of ranges, by unique name
};

// Whether PTX predefines the name, "%tid".
bool IsSpecialRegister(std::string_view name);

// Value of a constant expression.
struct Constant {
  uint64_t bits = 0;
  bool is_unsigned = false;
};

class Parser {
 public:
  Parser(const std::string& name, std::string_view text) : lexer_(name, text) { module_.name = name; }
  absl::StatusOr<Module> Parse();

 private:
  // parser_module.cc
  absl::Status ParseModule();
  absl::Status ParseModuleDirective(const Token& directive);
  absl::Status ParseTarget();
  absl::Status ParseFile();
  absl::Status ParseLinkage();
  absl::Status ParseModuleVariables(Space space, const Variable& linkage);
  absl::Status ParseFunction(bool is_entry, const Variable& linkage);
  absl::Status ParseFunctionDirectives(Function* function);
  absl::Status ParseParameterList(std::vector<Variable>* parameters);
  absl::Status AddFunction(Function function);
  absl::Status SkipBalanced(std::string_view open, std::string_view close);
  absl::StatusOr<Variable> ParseVariableHead(Space space);
  absl::Status ParseDeclarator(Variable* variable);
  absl::Status ParseInitializers(Variable* variable);
  absl::StatusOr<Initializer> ParseInitializer();
  void AssignCudaLines();

  // parser_body.cc
  absl::Status ParseBody(Function* function);
  absl::Status ParseStatement();
  absl::Status ParseBodyDirective(const Token& directive);
  absl::Status ParseRegisters();
  absl::Status ParseBodyVariables(Space space);
  absl::Status ParseLabel();
  absl::Status ParseBranchTargets(const Token& label);
  absl::Status ParseLoc();
  absl::Status ParseInstruction();
  absl::Status CheckBranches(const Function& function) const;

  // parser_operand.cc
  absl::StatusOr<Operand> ParseOperand(bool parentheses_are_lists, int depth);
  absl::StatusOr<Operand> ParseName();
  absl::StatusOr<Operand> ParseAddress(int depth);
  absl::StatusOr<std::vector<Operand>> ParseOperandsUntil(std::string_view close, bool lists, int depth);
  absl::StatusOr<Operand> ParseConstantOperand();
  absl::StatusOr<Constant> ParseConstant(int minimum_precedence, int depth);
  absl::StatusOr<Constant> ParseUnary(int depth);
  absl::StatusOr<Constant> ParseCast(int depth);
  absl::StatusOr<uint64_t> ParseOffset();

  // Small steps.
  const Token& Peek() const { return lexer_.Peek(); }
  bool TakeIf(std::string_view punctuation);
  absl::Status Expect(std::string_view punctuation);
  absl::StatusOr<std::string_view> ExpectName(const std::string& what);
  absl::StatusOr<uint64_t> ExpectInteger(const std::string& what);
  absl::Status Unexpected(const std::string& expected) const;
  absl::Status ErrorHere(const std::string& message) const { return lexer_.Error(Peek().line, message); }

  // A position that .loc names, and the positions of the calls it was inlined through, innermost first.
  struct Position {
    int file = 0, line = 0, column = 0;
  };
  using InlineChain = std::vector<Position>;

  Lexer lexer_;
  Module module_;
  std::unordered_map<std::string, size_t> function_index_;
  std::unordered_set<std::string> module_names_;
  Function* function_ = nullptr;
  FunctionScopes* scopes_ = nullptr;
  std::vector<InlineChain> chains_ = {{}};        // [0]: no .loc yet
  std::vector<std::vector<int>> chain_of_;        // per function, per instruction: index into chains_
  std::unordered_map<uint64_t, int> last_chain_;  // by position: its latest chain
  int current_chain_ = 0;
};

}  // namespace qgpu::ptx
