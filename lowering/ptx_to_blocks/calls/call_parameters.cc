// Where the .param variables of calls live, and how values get into them and out.
#include "lowering/ptx_to_blocks/calls/inliner.h"

namespace qgpu::lower::inlining {

const Function* Inliner::CalleeOf(const Instruction& in, const Operand** results, const Operand** arguments) const {
  size_t at = 0;
  const std::vector<Operand>& operands = in.operands;
  *results = at < operands.size() && operands[at].kind == Kind::kList ? &operands[at++] : nullptr;
  if (at >= operands.size() || operands[at].kind != Kind::kSymbol) return nullptr;
  const Function* callee = module_.FindFunction(operands[at++].name);
  *arguments = at < operands.size() && operands[at].kind == Kind::kList ? &operands[at++] : nullptr;
  return callee;
}

absl::Status Inliner::MakeStorage(Frame& frame) {
  const Function& function = *frame.function;
  std::map<std::string, StoragePlan> plans;
  for (const ptx::Variable& variable : function.variables) {
    if (variable.space == Space::kParam) plans[variable.name] = PlanStorage(function, variable.name);
  }
  for (const Instruction& in : function.instructions) {
    if (in.opcode != "call") continue;
    const Operand *results = nullptr, *arguments = nullptr;
    const Function* callee = CalleeOf(in, &results, &arguments);
    if (callee == nullptr) continue;
    for (const auto& [list, formals] :
         {std::pair(results, &callee->return_parameters), std::pair(arguments, &callee->parameters)}) {
      for (size_t i = 0; list != nullptr && i < std::min(list->elements.size(), formals->size()); ++i) {
        const auto plan = plans.find(list->elements[i].name);
        if (plan != plans.end()) plan->second.Add(PlanStorage(*callee, (*formals)[i].name));
      }
    }
  }
  for (const ptx::Variable& variable : function.variables) {
    if (variable.space == Space::kParam) frame.storage[variable.name] = Allocate(variable, plans.at(variable.name));
  }
  return absl::OkStatus();
}

ParamStorage Inliner::Allocate(const ptx::Variable& variable, const StoragePlan& plan) {
  ParamStorage storage;
  storage.bytes = variable.Bytes();
  if (plan.Agrees(storage.bytes)) {
    for (const ParamPiece& piece : plan.pieces) {
      storage.registers[piece] =
          AddRegister(fmt::format("{}+{}", variable.name, piece.offset), RegisterTypeOf(piece.bits));
    }
    return storage;
  }
  ptx::Variable local;
  local.space = Space::kLocal;
  local.name = Unique(variable.name);
  local.type = "b8";
  local.alignment = std::max(variable.Align(), 8);
  local.dimensions = {std::max<uint64_t>(storage.bytes, 1)};
  local.ptx_line = variable.ptx_line;
  out_.variables.push_back(local);
  storage.local = static_cast<int>(out_.variables.size()) - 1;
  return storage;
}

absl::Status Inliner::CopyLocalAccess(Frame& frame, const Instruction& in, const std::optional<Operand>& guard) {
  Instruction copy = in;
  copy.guard = guard;
  std::replace(copy.modifiers.begin(), copy.modifiers.end(), std::string("param"), std::string("local"));
  std::erase_if(copy.modifiers, [](const std::string& m) { return m.rfind("func", 0) == 0; });
  for (Operand& operand : copy.operands) {
    QGPU_ASSIGN_OR_RETURN(operand, Mapped(frame, in, operand));
  }
  out_.instructions.push_back(std::move(copy));
  return absl::OkStatus();
}

absl::Status Inliner::CopyRegisterAccess(Frame& frame, const Instruction& in, const ParamStorage& storage,
                                         const std::optional<Operand>& guard) {
  const ParamAccess access = AccessOf(in);
  const Operand& values = in.operands[access.is_store ? 1 : 0];
  const bool vector = values.kind == Kind::kVector;
  for (size_t i = 0; i < access.pieces.size(); ++i) {
    if (vector && i >= values.elements.size()) return Wrong(in, "has not as many values as its type");
    const Operand& value = vector ? values.elements[i] : values;
    const auto piece = storage.registers.find(access.pieces[i]);
    if (piece == storage.registers.end()) return Wrong(in, "lies outside of the variable");
    if (value.kind == Kind::kSink) continue;
    QGPU_ASSIGN_OR_RETURN(Operand mapped, Mapped(frame, in, value));
    const Operand reg = RegisterOperand(piece->second);
    QGPU_RETURN_IF_ERROR(access.is_store ? Move(in, reg, mapped, access.pieces[i].bits, false, guard)
                                         : Move(in, mapped, reg, access.pieces[i].bits, access.is_signed, guard));
  }
  return absl::OkStatus();
}

absl::Status Inliner::Move(const Instruction& in, const Operand& to, const Operand& from, int bits, bool is_signed,
                           const std::optional<Operand>& guard) {
  const auto width = [&](const Operand& operand) {
    if (operand.kind != Kind::kRegister) return 0;
    const auto type = ptx::LookUpType(out_.registers[static_cast<size_t>(operand.index)].type);
    return type ? type->bits : 0;
  };
  const int to_width = width(to), from_width = width(from);
  if (to_width < 16 || (from.kind == Kind::kRegister && from_width < 16)) {
    return Wrong(in, "moves something else than integers");
  }
  const char kind = is_signed ? 's' : 'u';
  Instruction move = Like(in, "mov", {fmt::format("b{}", to_width)}, {to, from});
  if (from.kind == Kind::kRegister && (to_width != from_width || bits < std::min(to_width, from_width))) {
    move.opcode = "cvt";
    move.modifiers = {fmt::format("{}{}", kind, to_width), fmt::format("{}{}", kind, std::min(bits, from_width))};
  }
  move.guard = guard;
  out_.instructions.push_back(std::move(move));
  return absl::OkStatus();
}

absl::Status Inliner::Call(Frame& frame, const Instruction& in) {
  const Operand *results = nullptr, *arguments = nullptr;
  const Function* callee = CalleeOf(in, &results, &arguments);
  if (callee == nullptr) {
    const size_t at = results == nullptr ? 0 : 1;
    if (at < in.operands.size() && in.operands[at].kind == Kind::kSymbol) return NoBody(in, in.operands[at].name);
    return Unsupported(in, "calls through function pointers");
  }
  if (callee->is_declaration) return NoBody(in, callee->name);
  if (callee->is_entry) return Unsupported(in, fmt::format("{} is a kernel", callee->name));
  if (std::find(stack_.begin(), stack_.end(), callee) != stack_.end()) {
    return Unsupported(in, fmt::format("recursion: {} calls itself", callee->name));
  }
  if (stack_.size() >= kMaxDepth) return Unsupported(in, fmt::format("more than {} calls in each other", kMaxDepth));
  Frame inner;
  inner.function = callee;
  inner.return_label = AddLabel("return");
  QGPU_RETURN_IF_ERROR(Pass(frame, inner, in, arguments, callee->parameters, true));
  QGPU_RETURN_IF_ERROR(Pass(frame, inner, in, results, callee->return_parameters, false));
  stack_.push_back(callee);
  QGPU_RETURN_IF_ERROR(Copy(inner));
  stack_.pop_back();
  PlaceLabel(inner.return_label);
  return Return(frame, inner, in, results, callee->return_parameters);
}

absl::Status Inliner::NoBody(const Instruction& in, const std::string& name) const {
  static const std::map<std::string, std::string> known = {
      {"vprintf", "printf: there is nowhere to print to"},
      {"__assertfail", "assert: use __trap"},
      {"malloc", "malloc: memory is what the launch has"},
      {"free", "free: memory is what the launch has"},
  };
  const auto found = known.find(name);
  return Unsupported(in, found != known.end() ? found->second : fmt::format("{} has no body here", name));
}

absl::Status Inliner::Pass(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
                           const std::vector<ptx::Variable>& formals, bool is_input) {
  const size_t given = list == nullptr ? 0 : list->elements.size();
  if (given != formals.size()) {
    return Wrong(in, fmt::format("{} takes {} values, not {}", inner.function->name, formals.size(), given));
  }
  for (size_t i = 0; i < given; ++i) {
    const Operand& actual = list->elements[i];
    const ptx::Variable& formal = formals[i];
    const auto outside = frame.storage.find(actual.name);
    if (formal.space == Space::kParam && actual.kind == Kind::kSymbol) {
      if (outside == frame.storage.end() || outside->second.bytes != formal.Bytes()) {
        return Wrong(in, fmt::format("{} does not fit the parameter {}", actual.name, formal.name));
      }
      inner.storage[formal.name] = outside->second;
    } else if (formal.space == Space::kParam) {
      StoragePlan plan = PlanStorage(*inner.function, formal.name);
      plan.Add({0, static_cast<int>(8 * formal.Bytes())});
      ParamStorage storage = Allocate(formal, plan);
      if (storage.local >= 0) return Unsupported(in, fmt::format("a register for the parameter {}", formal.name));
      if (is_input) {
        const Operand reg = RegisterOperand(storage.registers.begin()->second);
        QGPU_ASSIGN_OR_RETURN(const Operand mapped, Mapped(frame, in, actual));
        QGPU_RETURN_IF_ERROR(Move(in, reg, mapped, static_cast<int>(8 * formal.Bytes()), false, std::nullopt));
      }
      inner.storage[formal.name] = std::move(storage);
    } else if (is_input) {
      const int reg = FormalRegister(inner, formal);
      if (reg < 0) continue;  // the body does not use it
      QGPU_ASSIGN_OR_RETURN(const Operand mapped, Mapped(frame, in, actual));
      QGPU_RETURN_IF_ERROR(MoveRegister(in, RegisterOperand(reg), mapped));
    }
  }
  return absl::OkStatus();
}

int Inliner::FormalRegister(Frame& inner, const ptx::Variable& formal) {
  const std::vector<ptx::Register>& registers = inner.function->registers;
  for (size_t i = 0; i < registers.size(); ++i) {
    if (registers[i].name == formal.name) return RegisterOf(inner, static_cast<int>(i));
  }
  return -1;
}

absl::Status Inliner::MoveRegister(const Instruction& in, const Operand& to, const Operand& from) {
  const std::string& type = out_.registers[static_cast<size_t>(to.index)].type;
  const auto info = ptx::LookUpType(type);
  if (info && info->kind == ptx::TypeInfo::Kind::kPredicate) {
    out_.instructions.push_back(Like(in, "mov", {"pred"}, {to, from}));
    return absl::OkStatus();
  }
  return Move(in, to, from, info ? info->bits : 0, false, std::nullopt);
}

absl::Status Inliner::Return(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
                             const std::vector<ptx::Variable>& formals) {
  for (size_t i = 0; list != nullptr && i < formals.size(); ++i) {
    const Operand& actual = list->elements[i];
    if (actual.kind == Kind::kSymbol || actual.kind == Kind::kSink) continue;
    QGPU_ASSIGN_OR_RETURN(const Operand to, Mapped(frame, in, actual));
    if (to.kind != Kind::kRegister) return Wrong(in, fmt::format("cannot return to {}", ptx::ToString(actual)));
    const int from = formals[i].space == Space::kParam ? inner.storage.at(formals[i].name).registers.begin()->second
                                                       : FormalRegister(inner, formals[i]);
    if (from >= 0) QGPU_RETURN_IF_ERROR(MoveRegister(in, to, RegisterOperand(from)));
  }
  return absl::OkStatus();
}

}  // namespace qgpu::lower::inlining
