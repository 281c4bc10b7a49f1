#include "lowering/ptx_to_blocks/calls/inline_calls.h"

#include "lowering/ptx_to_blocks/calls/inliner.h"

namespace qgpu::lower::inlining {

Operand Inliner::RegisterOperand(int index) const {
  Operand operand;
  operand.kind = Kind::kRegister;
  operand.index = index;
  operand.name = out_.registers[static_cast<size_t>(index)].name;
  return operand;
}

int Inliner::RegisterOf(Frame& frame, int index) {
  const auto known = frame.registers.find(index);
  if (known != frame.registers.end()) return known->second;
  const ptx::Register& reg = frame.function->registers[static_cast<size_t>(index)];
  if (frame.return_label >= 0) return frame.registers[index] = AddRegister(reg.name, reg.type, reg.vector);
  out_.registers.push_back(reg);
  return frame.registers[index] = static_cast<int>(out_.registers.size()) - 1;
}

int Inliner::VariableOf(Frame& frame, int index) {
  const auto key = std::pair(frame.function, index);
  const auto known = variables_.find(key);
  if (known != variables_.end()) return known->second;
  ptx::Variable variable = frame.function->variables[static_cast<size_t>(index)];
  if (frame.return_label >= 0) variable.name = Unique(variable.name);
  out_.variables.push_back(variable);
  return variables_[key] = static_cast<int>(out_.variables.size()) - 1;
}

int Inliner::AddLabel(const std::string& name) {
  ptx::Label label;
  label.name = name;
  label.instruction = -1;
  out_.labels.push_back(label);
  return static_cast<int>(out_.labels.size()) - 1;
}

Instruction Inliner::Like(const Instruction& in, const std::string& opcode, std::vector<std::string> modifiers,
                          std::vector<Operand> operands) const {
  Instruction made;
  made.opcode = opcode;
  made.modifiers = std::move(modifiers);
  made.operands = std::move(operands);
  made.location = in.location;
  return made;
}

Operand Inliner::LabelOperand(int label) const {
  Operand operand;
  operand.kind = Kind::kLabel;
  operand.index = label;
  operand.name = out_.labels[static_cast<size_t>(label)].name;
  return operand;
}

absl::StatusOr<Operand> Inliner::Mapped(Frame& frame, const Instruction& in, const Operand& operand) {
  Operand mapped = operand;
  switch (operand.kind) {
    case Kind::kRegister:
      mapped.index = RegisterOf(frame, operand.index);
      mapped.name = out_.registers[static_cast<size_t>(mapped.index)].name;
      break;
    case Kind::kLabel:
      mapped = LabelOperand(frame.labels.at(operand.index));
      break;
    case Kind::kSymbol:
      return MappedSymbol(frame, in, operand);
    default:
      break;
  }
  for (Operand& element : mapped.elements) {
    QGPU_ASSIGN_OR_RETURN(element, Mapped(frame, in, element));
  }
  return mapped;
}

absl::StatusOr<Operand> Inliner::MappedSymbol(Frame& frame, const Instruction& in, const Operand& operand) {
  Operand mapped = operand;
  const auto storage = frame.storage.find(operand.name);
  if (storage != frame.storage.end()) {
    if (storage->second.local < 0) return Wrong(in, fmt::format("{} is not in memory", operand.name));
    mapped.index = storage->second.local;
    mapped.name = out_.variables[static_cast<size_t>(mapped.index)].name;
  } else if (operand.index >= 0) {
    mapped.index = VariableOf(frame, operand.index);
    mapped.name = out_.variables[static_cast<size_t>(mapped.index)].name;
  } else if (module_.FindFunction(operand.name) != nullptr) {
    return Unsupported(in, fmt::format("the address of function {}: calls through function pointers", operand.name));
  }
  return mapped;
}

absl::Status Inliner::Copy(Frame& frame) {
  const Function& function = *frame.function;
  std::multimap<int, int> labels_at;
  for (size_t i = 0; i < function.labels.size(); ++i) {
    const std::string& name = function.labels[i].name;
    frame.labels[static_cast<int>(i)] = AddLabel(frame.return_label >= 0 ? Unique(name) : name);
    labels_at.insert({function.labels[i].instruction, frame.labels[static_cast<int>(i)]});
  }
  QGPU_RETURN_IF_ERROR(MakeStorage(frame));
  for (size_t i = 0; i <= function.instructions.size(); ++i) {
    const auto [first, last] = labels_at.equal_range(static_cast<int>(i));
    for (auto label = first; label != last; ++label) PlaceLabel(label->second);
    if (i == function.instructions.size()) break;
    if (out_.instructions.size() > kMaxInstructions) {
      return absl::InvalidArgumentError(
          fmt::format("{}: kernel {} has more than {} PTX instructions with all that it calls; the ROM holds 128 slots",
                      module_.name, out_.name, kMaxInstructions));
    }
    QGPU_RETURN_IF_ERROR(CopyOne(frame, function.instructions[i]));
  }
  return absl::OkStatus();
}

absl::Status Inliner::CopyOne(Frame& frame, const Instruction& in) {
  std::optional<Operand> guard;
  if (in.guard) {
    QGPU_ASSIGN_OR_RETURN(guard, Mapped(frame, in, *in.guard));
  }
  int around = -1;
  if (GetsBranchAround(in)) {
    around = AddLabel("around");
    guard->negated = !guard->negated;
    Branch(in, around, std::exchange(guard, std::nullopt));
  }
  QGPU_RETURN_IF_ERROR(CopyWithGuard(frame, in, guard));
  if (around >= 0) PlaceLabel(around);
  return absl::OkStatus();
}

absl::Status Inliner::CopyWithGuard(Frame& frame, const Instruction& in, const std::optional<Operand>& guard) {
  if (in.opcode == "call") return Call(frame, in);
  if (in.opcode == "brx") return BranchByIndex(frame, in);
  if (in.opcode == "ret" && frame.return_label >= 0) {
    Branch(in, frame.return_label, guard);
    return absl::OkStatus();
  }
  if (const ParamStorage* storage = AccessedStorage(frame, in)) {
    return storage->local >= 0 ? CopyLocalAccess(frame, in, guard) : CopyRegisterAccess(frame, in, *storage, guard);
  }
  if (frame.return_label >= 0 && in.Has("param") && (in.opcode == "ld" || in.opcode == "st")) {
    return CopyLocalAccess(frame, in, guard);  // through a pointer: its target is in local memory, see MakeStorage
  }
  Instruction copy = in;
  copy.guard = guard;
  for (Operand& operand : copy.operands) {
    QGPU_ASSIGN_OR_RETURN(operand, Mapped(frame, in, operand));
  }
  if (IsMoveOfSpecialVector(copy)) return MoveComponents(copy);
  out_.instructions.push_back(std::move(copy));
  return absl::OkStatus();
}

absl::Status Inliner::MoveComponents(const Instruction& in) {
  for (size_t i = 0; i < 4; ++i) {
    if (in.operands[0].elements[i].kind == Kind::kSink) continue;
    Operand component = in.operands[1];
    component.name += fmt::format(".{}", "xyzw"[i]);
    std::vector<std::string> modifiers = in.modifiers;
    std::erase(modifiers, "v4");
    Instruction move = Like(in, "mov", std::move(modifiers), {in.operands[0].elements[i], component});
    move.guard = in.guard;
    out_.instructions.push_back(std::move(move));
  }
  return absl::OkStatus();
}

absl::Status Inliner::BranchByIndex(Frame& frame, const Instruction& in) {
  if (in.operands.size() != 2 || in.operands[1].kind != Kind::kTargets || !in.Has("idx")) {
    return Wrong(in, "has no list of branch targets");
  }
  const auto& list = frame.function->branch_targets[static_cast<size_t>(in.operands[1].index)];
  if (list.targets.empty()) return Wrong(in, "has no targets");
  std::vector<int> targets;
  for (int target : list.targets) targets.push_back(frame.labels.at(target));
  QGPU_ASSIGN_OR_RETURN(const Operand index, Mapped(frame, in, in.operands[0]));
  if (index.kind != Kind::kRegister) return Wrong(in, "has no register to choose by");
  Choose(in, index, targets, 0, targets.size());
  return absl::OkStatus();
}

void Inliner::Choose(const Instruction& in, const Operand& index, const std::vector<int>& targets, size_t first,
                     size_t last) {
  // Targets that are equal next to each other need no comparison.
  std::vector<size_t> borders;
  for (size_t i = first + 1; i < last; ++i) {
    if (targets[i] != targets[i - 1]) borders.push_back(i);
  }
  if (borders.empty()) return Branch(in, targets[first]);
  const size_t border = borders[borders.size() / 2];
  Operand limit;
  limit.value = border;
  const int below = AddRegister("%below", "pred");
  out_.instructions.push_back(Like(in, "setp", {"lt", "u32"}, {RegisterOperand(below), index, limit}));
  const int lower = AddLabel("lower");
  Branch(in, lower, RegisterOperand(below));
  Choose(in, index, targets, border, last);
  PlaceLabel(lower);
  Choose(in, index, targets, first, border);
}

}  // namespace qgpu::lower::inlining

namespace qgpu::lower {

absl::StatusOr<ptx::Function> InlineCalls(const ptx::Module& module, const ptx::Function& kernel) {
  return inlining::Inliner(module, kernel).Run(kernel);
}

}  // namespace qgpu::lower
