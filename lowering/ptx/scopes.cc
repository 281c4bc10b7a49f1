#include "lowering/ptx/parser.h"

namespace qgpu::ptx {

void FunctionScopes::Push() {
  scopes_.emplace_back();
  scopes_.back().first_reference = references_.size();
}

void FunctionScopes::Pop() {
  const Scope& scope = scopes_.back();
  size_t kept = scope.first_reference;
  for (size_t i = scope.first_reference; i < references_.size(); ++i) {
    if (Bind(references_[i], scope)) continue;
    if (kept != i) references_[kept] = std::move(references_[i]);
    ++kept;
  }
  references_.resize(kept);
  scopes_.pop_back();
}

bool FunctionScopes::Bind(const Reference& reference, const Scope& scope) {
  const auto label = scope.labels.find(reference.name);
  if (reference.in_targets) {
    if (label == scope.labels.end()) return false;
    function_->branch_targets[reference.owner].targets[reference.position] = label->second;
    return true;
  }
  Operand& operand = function_->instructions[reference.owner].operands[reference.position];
  if (label != scope.labels.end()) {
    operand.kind = Operand::Kind::kLabel;
    operand.index = label->second;
    operand.name = function_->labels[label->second].name;
    return true;
  }
  const auto targets = scope.targets.find(reference.name);
  if (targets == scope.targets.end()) return false;
  operand.kind = Operand::Kind::kTargets;
  operand.index = targets->second;
  operand.name = function_->branch_targets[targets->second].name;
  return true;
}

std::string FunctionScopes::UniqueName(std::string_view name) {
  const int use = ++uses_of_name_[std::string(name)];
  return use == 1 ? std::string(name) : fmt::format("{}@{}", name, use);
}

bool FunctionScopes::Taken(const Scope& scope, const std::string& name) const {
  return scope.registers.count(name) + scope.variables.count(name) + scope.labels.count(name) +
             scope.targets.count(name) !=
         0;
}

bool FunctionScopes::DeclareRegister(std::string_view name, const std::string& type, int vector) {
  Scope& scope = scopes_.back();
  if (Taken(scope, std::string(name))) return false;
  scope.registers[std::string(name)] = {UniqueName(name), type, vector, 0, -1};
  return true;
}

bool FunctionScopes::DeclareRegisterRange(std::string_view prefix, uint64_t count, const std::string& type,
                                          int vector) {
  // '<' keeps the counter of the prefix apart from that of a register with the same name.
  const std::string counted = std::string(prefix) + "<";
  const int use = ++uses_of_name_[counted];
  const std::string unique = use == 1 ? std::string(prefix) : fmt::format("{}@{}_", prefix, use);
  return scopes_.back()
      .ranges.try_emplace(std::string(prefix), RegisterDeclaration{unique, type, vector, count, -1})
      .second;
}

bool FunctionScopes::DeclareVariable(Variable variable) {
  Scope& scope = scopes_.back();
  const std::string name = variable.name;
  if (Taken(scope, name)) return false;
  if (module_names_->count(name) != 0) Reserve(name);
  variable.name = UniqueName(name);
  scope.variables[name] = static_cast<int>(function_->variables.size());
  function_->variables.push_back(std::move(variable));
  return true;
}

bool FunctionScopes::DeclareLabel(std::string_view name, int line) {
  Scope& scope = scopes_.back();
  if (Taken(scope, std::string(name))) return false;
  scope.labels[std::string(name)] = static_cast<int>(function_->labels.size());
  function_->labels.push_back({UniqueName(name), static_cast<int>(function_->instructions.size()), line});
  return true;
}

bool FunctionScopes::DeclareTargets(std::string_view name, const std::vector<std::string_view>& targets, int line) {
  Scope& scope = scopes_.back();
  if (Taken(scope, std::string(name))) return false;
  const size_t index = function_->branch_targets.size();
  scope.targets[std::string(name)] = static_cast<int>(index);
  function_->branch_targets.push_back({UniqueName(name), std::vector<int>(targets.size(), -1), line});
  for (size_t i = 0; i < targets.size(); ++i) references_.push_back({std::string(targets[i]), true, index, i});
  return true;
}

int FunctionScopes::UseRegister(const std::string& unique_name, const RegisterDeclaration& declaration) {
  function_->registers.push_back({unique_name, declaration.type, declaration.vector});
  return static_cast<int>(function_->registers.size()) - 1;
}

int FunctionScopes::FindRegister(std::string_view name) {
  constexpr size_t kMaxIndexDigits = 9;
  const std::string whole(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto single = scope->registers.find(whole); single != scope->registers.end()) {
      RegisterDeclaration& declaration = single->second;
      if (declaration.index < 0) declaration.index = UseRegister(declaration.unique_name, declaration);
      return declaration.index;
    }
    if (scope->variables.count(whole) != 0) return -1;
    for (size_t digits = 1; digits <= kMaxIndexDigits && digits < name.size(); ++digits) {
      const size_t split = name.size() - digits;
      if (name[split] < '0' || name[split] > '9') break;
      if (name[split] == '0' && digits > 1) continue;
      const auto range = scope->ranges.find(whole.substr(0, split));
      if (range == scope->ranges.end()) continue;
      if (std::stoull(whole.substr(split)) >= range->second.count) continue;
      const std::string unique = range->second.unique_name + whole.substr(split);
      const auto [used, is_new] = used_registers_.try_emplace(unique, 0);
      if (is_new) used->second = UseRegister(unique, range->second);
      return used->second;
    }
  }
  return -1;
}

int FunctionScopes::FindVariable(std::string_view name) const {
  const std::string key(name);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->variables.find(key); found != scope->variables.end()) return found->second;
  }
  return -1;
}

void FunctionScopes::NotePossibleLabel(std::string_view name, size_t operand) {
  references_.push_back({std::string(name), false, function_->instructions.size(), operand});
}

}  // namespace qgpu::ptx
