#include "lowering/ptx_to_blocks/inline_calls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lowering/ptx_to_blocks/param_storage.h"

namespace qgpu::lower {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::Space;
using Kind = ptx::Operand::Kind;

constexpr size_t kMaxInstructions = 16384;  // after inlining
constexpr size_t kMaxDepth = 32;            // of calls

// What an operand of a called function's body stands for in the kernel.
struct Frame {
  const Function* function = nullptr;
  std::map<int, int> registers, variables, labels;  // to those of the result
  std::map<std::string, ParamStorage> storage;      // of .param variables and parameters, by name
  int return_label = -1;                            // -1: the kernel itself
};

class Inliner {
 public:
  Inliner(const ptx::Module& module, const Function& kernel) : module_(module) {
    out_ = kernel;
    out_.registers.clear();
    out_.variables.clear();
    out_.labels.clear();
    out_.branch_targets.clear();
    out_.instructions.clear();
    for (const ptx::Register& reg : kernel.registers) names_.insert(reg.name);
    for (const ptx::Variable& variable : kernel.variables) names_.insert(variable.name);
    for (const ptx::Variable& variable : module.variables) names_.insert(variable.name);
    for (const ptx::Variable& parameter : kernel.parameters) names_.insert(parameter.name);
  }

  absl::StatusOr<Function> Run(const Function& kernel) {
    Frame frame;
    frame.function = &kernel;
    QGPU_RETURN_IF_ERROR(Copy(frame));
    return std::move(out_);
  }

 private:
  // ---- errors ----

  std::string About(const Instruction& in) const {
    return fmt::format("{}: {}", ptx::Place(module_, in.location), ptx::ToString(in));
  }
  absl::Status Unsupported(const Instruction& in, const std::string& why) const {
    return absl::UnimplementedError(fmt::format("{}: not supported by the machine's lowering: {}", About(in), why));
  }
  absl::Status Wrong(const Instruction& in, const std::string& what) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", About(in), what));
  }

  // ---- names of the result ----

  std::string Unique(const std::string& name) {
    std::string unique = name;
    for (int i = 2; !names_.insert(unique).second; ++i) unique = fmt::format("{}.{}", name, i);
    return unique;
  }

  int AddRegister(const std::string& name, const std::string& type, int vector = 1) {
    out_.registers.push_back({Unique(name), type, vector});
    return static_cast<int>(out_.registers.size()) - 1;
  }

  Operand RegisterOperand(int index) const {
    Operand operand;
    operand.kind = Kind::kRegister;
    operand.index = index;
    operand.name = out_.registers[static_cast<size_t>(index)].name;
    return operand;
  }

  int RegisterOf(Frame& frame, int index) {
    const auto known = frame.registers.find(index);
    if (known != frame.registers.end()) return known->second;
    const ptx::Register& reg = frame.function->registers[static_cast<size_t>(index)];
    if (frame.return_label >= 0) return frame.registers[index] = AddRegister(reg.name, reg.type, reg.vector);
    out_.registers.push_back(reg);
    return frame.registers[index] = static_cast<int>(out_.registers.size()) - 1;
  }

  // Functions do not recurse, so one place for each variable is enough, whoever calls.
  int VariableOf(Frame& frame, int index) {
    const auto key = std::pair(frame.function, index);
    const auto known = variables_.find(key);
    if (known != variables_.end()) return known->second;
    ptx::Variable variable = frame.function->variables[static_cast<size_t>(index)];
    if (frame.return_label >= 0) variable.name = Unique(variable.name);
    out_.variables.push_back(variable);
    return variables_[key] = static_cast<int>(out_.variables.size()) - 1;
  }

  int AddLabel(const std::string& name) {
    ptx::Label label;
    label.name = name;
    label.instruction = -1;
    out_.labels.push_back(label);
    return static_cast<int>(out_.labels.size()) - 1;
  }
  void PlaceLabel(int label) { out_.labels[static_cast<size_t>(label)].instruction = Count(); }
  int Count() const { return static_cast<int>(out_.instructions.size()); }

  // ---- instructions of the result ----

  Instruction Like(const Instruction& in, const std::string& opcode, std::vector<std::string> modifiers,
                   std::vector<Operand> operands) const {
    Instruction made;
    made.opcode = opcode;
    made.modifiers = std::move(modifiers);
    made.operands = std::move(operands);
    made.location = in.location;
    return made;
  }

  Operand LabelOperand(int label) const {
    Operand operand;
    operand.kind = Kind::kLabel;
    operand.index = label;
    operand.name = out_.labels[static_cast<size_t>(label)].name;
    return operand;
  }

  void Branch(const Instruction& in, int label, std::optional<Operand> guard = std::nullopt) {
    Instruction branch = Like(in, "bra", {}, {LabelOperand(label)});
    branch.guard = std::move(guard);
    out_.instructions.push_back(std::move(branch));
  }

  absl::StatusOr<Operand> Mapped(Frame& frame, const Instruction& in, const Operand& operand) {
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

  absl::StatusOr<Operand> MappedSymbol(Frame& frame, const Instruction& in, const Operand& operand) {
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

  // ---- bodies ----

  absl::Status Copy(Frame& frame) {
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
        return absl::InvalidArgumentError(fmt::format(
            "{}: kernel {} has more than {} PTX instructions with all that it calls; the ROM holds 128 slots",
            module_.name, out_.name, kMaxInstructions));
      }
      QGPU_RETURN_IF_ERROR(CopyOne(frame, function.instructions[i]));
    }
    return absl::OkStatus();
  }

  static bool GetsBranchAround(const Instruction& in) {
    static const std::set<std::string> opcodes = {"bar",        "barrier", "shfl", "vote", "match",
                                                  "activemask", "trap",    "brx",  "call"};
    return in.guard && opcodes.count(in.opcode) != 0;
  }

  absl::Status CopyOne(Frame& frame, const Instruction& in) {
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

  absl::Status CopyWithGuard(Frame& frame, const Instruction& in, const std::optional<Operand>& guard) {
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

  // mov.v4.u32 {a, b, c, d}, %tid;
  static bool IsMoveOfSpecialVector(const Instruction& in) {
    return in.opcode == "mov" && in.Has("v4") && in.operands.size() == 2 && in.operands[0].kind == Kind::kVector &&
           in.operands[0].elements.size() == 4 && in.operands[1].kind == Kind::kSpecial &&
           in.operands[1].name.find('.') == std::string::npos;
  }

  absl::Status MoveComponents(const Instruction& in) {
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

  // ---- .param variables ----

  // The .param variable of a body that a ld.param or st.param names.
  static const ParamStorage* AccessedStorage(const Frame& frame, const Instruction& in) {
    const ParamAccess access = AccessOf(in);
    if (access.name.empty()) return nullptr;
    const auto found = frame.storage.find(access.name);
    return found == frame.storage.end() ? nullptr : &found->second;
  }

  const Function* CalleeOf(const Instruction& in, const Operand** results, const Operand** arguments) const {
    size_t at = 0;
    const std::vector<Operand>& operands = in.operands;
    *results = at < operands.size() && operands[at].kind == Kind::kList ? &operands[at++] : nullptr;
    if (at >= operands.size() || operands[at].kind != Kind::kSymbol) return nullptr;
    const Function* callee = module_.FindFunction(operands[at++].name);
    *arguments = at < operands.size() && operands[at].kind == Kind::kList ? &operands[at++] : nullptr;
    return callee;
  }

  // Where the .param variables of the body live: all accesses here and in the functions that they are passed to count.
  absl::Status MakeStorage(Frame& frame) {
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

  ParamStorage Allocate(const ptx::Variable& variable, const StoragePlan& plan) {
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

  absl::Status CopyLocalAccess(Frame& frame, const Instruction& in, const std::optional<Operand>& guard) {
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

  absl::Status CopyRegisterAccess(Frame& frame, const Instruction& in, const ParamStorage& storage,
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

  // to = the low `bits` of from, extended where `to` is wider.
  absl::Status Move(const Instruction& in, const Operand& to, const Operand& from, int bits, bool is_signed,
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

  // ---- calls ----

  absl::Status Call(Frame& frame, const Instruction& in) {
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

  absl::Status NoBody(const Instruction& in, const std::string& name) const {
    static const std::map<std::string, std::string> known = {
        {"vprintf", "printf: there is nowhere to print to"},
        {"__assertfail", "assert: use __trap"},
        {"malloc", "malloc: memory is what the launch has"},
        {"free", "free: memory is what the launch has"},
    };
    const auto found = known.find(name);
    return Unsupported(in, found != known.end() ? found->second : fmt::format("{} has no body here", name));
  }

  // Binds the callee's parameters to what the call names: a .param variable is the same one inside.
  absl::Status Pass(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
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

  int FormalRegister(Frame& inner, const ptx::Variable& formal) {
    const std::vector<ptx::Register>& registers = inner.function->registers;
    for (size_t i = 0; i < registers.size(); ++i) {
      if (registers[i].name == formal.name) return RegisterOf(inner, static_cast<int>(i));
    }
    return -1;
  }

  absl::Status MoveRegister(const Instruction& in, const Operand& to, const Operand& from) {
    const std::string& type = out_.registers[static_cast<size_t>(to.index)].type;
    const auto info = ptx::LookUpType(type);
    if (info && info->kind == ptx::TypeInfo::Kind::kPredicate) {
      out_.instructions.push_back(Like(in, "mov", {"pred"}, {to, from}));
      return absl::OkStatus();
    }
    return Move(in, to, from, info ? info->bits : 0, false, std::nullopt);
  }

  absl::Status Return(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
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

  // ---- brx.idx ----

  absl::Status BranchByIndex(Frame& frame, const Instruction& in) {
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

  // Goes to targets[index] for an index from `first` up to, not including, `last`; others have no meaning in PTX.
  void Choose(const Instruction& in, const Operand& index, const std::vector<int>& targets, size_t first, size_t last) {
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

  const ptx::Module& module_;
  Function out_;
  std::set<std::string> names_;
  std::map<std::pair<const Function*, int>, int> variables_;
  std::vector<const Function*> stack_;
};

}  // namespace

absl::StatusOr<ptx::Function> InlineCalls(const ptx::Module& module, const ptx::Function& kernel) {
  return Inliner(module, kernel).Run(kernel);
}

}  // namespace qgpu::lower
