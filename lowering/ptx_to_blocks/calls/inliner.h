// InlineCalls' work as a class in two files: inline_calls.cc copies bodies, call_parameters.cc binds what calls pass.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lowering/ptx_to_blocks/calls/inline_calls.h"
#include "lowering/ptx_to_blocks/calls/param_storage.h"

namespace qgpu::lower::inlining {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::Space;
using Kind = ptx::Operand::Kind;

inline constexpr size_t kMaxInstructions = 16384;  // after inlining
inline constexpr size_t kMaxDepth = 32;            // of calls

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

  Operand RegisterOperand(int index) const;

  int RegisterOf(Frame& frame, int index);

  // Functions do not recurse, so one place for each variable is enough, whoever calls.
  int VariableOf(Frame& frame, int index);

  int AddLabel(const std::string& name);
  void PlaceLabel(int label) { out_.labels[static_cast<size_t>(label)].instruction = Count(); }
  int Count() const { return static_cast<int>(out_.instructions.size()); }

  // ---- instructions of the result ----

  Instruction Like(const Instruction& in, const std::string& opcode, std::vector<std::string> modifiers,
                   std::vector<Operand> operands) const;

  Operand LabelOperand(int label) const;

  void Branch(const Instruction& in, int label, std::optional<Operand> guard = std::nullopt) {
    Instruction branch = Like(in, "bra", {}, {LabelOperand(label)});
    branch.guard = std::move(guard);
    out_.instructions.push_back(std::move(branch));
  }

  absl::StatusOr<Operand> Mapped(Frame& frame, const Instruction& in, const Operand& operand);

  absl::StatusOr<Operand> MappedSymbol(Frame& frame, const Instruction& in, const Operand& operand);

  // ---- bodies ----

  absl::Status Copy(Frame& frame);

  static bool GetsBranchAround(const Instruction& in) {
    static const std::set<std::string> opcodes = {"bar",        "barrier", "shfl", "vote", "match",
                                                  "activemask", "trap",    "brx",  "call"};
    return in.guard && opcodes.count(in.opcode) != 0;
  }

  absl::Status CopyOne(Frame& frame, const Instruction& in);

  absl::Status CopyWithGuard(Frame& frame, const Instruction& in, const std::optional<Operand>& guard);

  // mov.v4.u32 {a, b, c, d}, %tid;
  static bool IsMoveOfSpecialVector(const Instruction& in) {
    return in.opcode == "mov" && in.Has("v4") && in.operands.size() == 2 && in.operands[0].kind == Kind::kVector &&
           in.operands[0].elements.size() == 4 && in.operands[1].kind == Kind::kSpecial &&
           in.operands[1].name.find('.') == std::string::npos;
  }

  absl::Status MoveComponents(const Instruction& in);

  // ---- .param variables ----

  // The .param variable of a body that a ld.param or st.param names.
  static const ParamStorage* AccessedStorage(const Frame& frame, const Instruction& in) {
    const ParamAccess access = AccessOf(in);
    if (access.name.empty()) return nullptr;
    const auto found = frame.storage.find(access.name);
    return found == frame.storage.end() ? nullptr : &found->second;
  }

  const Function* CalleeOf(const Instruction& in, const Operand** results, const Operand** arguments) const;

  // Where the .param variables of the body live: all accesses here and in the functions that they are passed to count.
  absl::Status MakeStorage(Frame& frame);

  ParamStorage Allocate(const ptx::Variable& variable, const StoragePlan& plan);

  absl::Status CopyLocalAccess(Frame& frame, const Instruction& in, const std::optional<Operand>& guard);

  absl::Status CopyRegisterAccess(Frame& frame, const Instruction& in, const ParamStorage& storage,
                                  const std::optional<Operand>& guard);

  // to = the low `bits` of from, extended where `to` is wider.
  absl::Status Move(const Instruction& in, const Operand& to, const Operand& from, int bits, bool is_signed,
                    const std::optional<Operand>& guard);

  // ---- calls ----

  absl::Status Call(Frame& frame, const Instruction& in);

  absl::Status NoBody(const Instruction& in, const std::string& name) const;

  // Binds the callee's parameters to what the call names: a .param variable is the same one inside.
  absl::Status Pass(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
                    const std::vector<ptx::Variable>& formals, bool is_input);

  int FormalRegister(Frame& inner, const ptx::Variable& formal);

  absl::Status MoveRegister(const Instruction& in, const Operand& to, const Operand& from);

  absl::Status Return(Frame& frame, Frame& inner, const Instruction& in, const Operand* list,
                      const std::vector<ptx::Variable>& formals);

  // ---- brx.idx ----

  absl::Status BranchByIndex(Frame& frame, const Instruction& in);

  // Goes to targets[index] for an index from `first` up to, not including, `last`; others have no meaning in PTX.
  void Choose(const Instruction& in, const Operand& index, const std::vector<int>& targets, size_t first, size_t last);

  const ptx::Module& module_;
  Function out_;
  std::set<std::string> names_;
  std::map<std::pair<const Function*, int>, int> variables_;
  std::vector<const Function*> stack_;
};

}  // namespace qgpu::lower::inlining
