#include "machine/isa/isa.h"

#include <algorithm>

namespace qgpu {
namespace {

// R is the result, P the slot predicate, g the guard; shift amounts are whole 32-bit values.
const std::vector<OpInfo> kOps = {
    {Op::kNop, "nop", true, true, "R = 0, P = 0"},
    {Op::kMad, "mad", true, false, "R = low 32 bits of A * B + C"},
    {Op::kAnd, "and", true, true, "R = A & B"},
    {Op::kOr, "or", true, true, "R = A | B"},
    {Op::kXor, "xor", true, true, "R = A ^ B"},
    {Op::kAdd, "add", true, true, "R = A + B, P = g and R != 0"},
    {Op::kLd, "ld", true, true, "R = g ? word at byte address A + B, as it was before the pass : 0"},
    {Op::kSt, "st", false, true, "where g: word at byte address A + B becomes C; R = C"},
    {Op::kSub, "sub", true, true, "R = A - B, P = g and R != 0"},
    {Op::kMinU, "min.u", false, true, "R = unsigned minimum of A, B"},
    {Op::kMinS, "min.s", false, true, "R = signed minimum of A, B"},
    {Op::kMaxU, "max.u", false, true, "R = unsigned maximum of A, B"},
    {Op::kMaxS, "max.s", false, true, "R = signed maximum of A, B"},
    {Op::kSelp, "selp", true, true, "R = g ? A : B"},
    {Op::kShl, "shl", false, true, "R = B < 32 ? A << B : 0"},
    {Op::kShr, "shr", false, true, "R = B < 32 ? A >> B : 0, zeros come in"},
    {Op::kSar, "sar", false, true, "R = A >> min(B, 31), copies of the sign come in"},
    {Op::kPopc, "popc", false, true, "R = number of ones in A"},
    {Op::kClz, "clz", false, true, "R = number of leading zeros of A, 32 for 0"},
    {Op::kBrev, "brev", false, true, "R = bits of A in reverse order"},
    {Op::kBallot, "ballot", false, true, "R = for each of the four lanes one bit: active and g"},
    {Op::kShflUp, "shfl.up", false, true, "R = A of lane - B in the segment, else own A; P = there is such a lane"},
    {Op::kShflDown, "shfl.down", false, true, "R = A of lane + B in the segment, else own A; P = there is such a lane"},
    {Op::kShflBfly, "shfl.bfly", false, true, "R = A of lane ^ B in the segment, else own A; P = there is such a lane"},
    {Op::kShflIdx, "shfl.idx", false, true, "R = A of lane B of the segment (modulo its width); P = 1"},
    {Op::kPSet, "pset", true, true, "P = g"},
    {Op::kPAnd, "pand", true, true, "P = g and P of the slot before"},
    {Op::kSetNe, "set.ne", true, true, "P = g and A != B, R = A - B"},
    {Op::kPOr, "por", true, true, "P = g or P of the slot before"},
    {Op::kPXor, "pxor", true, true, "P = g != P of the slot before"},
    {Op::kSetEq, "set.eq", true, true, "P = g and A == B, R = A - B"},
    {Op::kSetGeU, "set.ge.u", true, true, "P = g and A >= B unsigned, R = A - B"},
    {Op::kSetGeS, "set.ge.s", true, true, "P = g and A >= B signed, R = A - B"},
    {Op::kSetGtU, "set.gt.u", true, true, "P = g and A > B unsigned, R = A - B"},
    {Op::kSetGtS, "set.gt.s", true, true, "P = g and A > B signed, R = A - B"},
    {Op::kSetLtU, "set.lt.u", true, true, "P = g and A < B unsigned, R = A - B"},
    {Op::kSetLtS, "set.lt.s", true, true, "P = g and A < B signed, R = A - B"},
    {Op::kSetLeU, "set.le.u", true, true, "P = g and A <= B unsigned, R = A - B"},
    {Op::kSetLeS, "set.le.s", true, true, "P = g and A <= B signed, R = A - B"},
};

bool IsShuffle(Op op) { return op >= Op::kShflUp && op <= Op::kShflIdx; }

std::string FormatSource(int source, uint32_t immediate) {
  if (source == kSourceNone) return fmt::format("{}", static_cast<int32_t>(immediate));
  if (source < 16) return fmt::format("r{}", source);
  if (source <= kSourceThreeBack) return fmt::format("prev{}", source - 15);
  const int word = source - kSourceSpecial;
  switch (word) {
    case kSpecialCtaX:
      return "ctaid.x";
    case kSpecialCtaY:
      return "ctaid.y";
    case kSpecialCtaZ:
      return "ctaid.z";
    case kSpecialLaneId:
      return "laneid";
    case kSpecialTidX:
      return "tid.x";
    case kSpecialTidY:
      return "tid.y";
    case kSpecialTidZ:
      return "tid.z";
    default:
      return fmt::format("c{}", word - kSpecialFirstParameter);
  }
}

std::string FormatGuard(int guard, bool negate) {
  if (guard == kGuardAlways) return "";
  return fmt::format("{}{}{}", negate ? "!" : "", guard >= kGuardSlot ? "s" : "p",
                     guard >= kGuardSlot ? guard - kGuardSlot : guard);
}

// What is wrong with a source of `slot`, or "".
std::string SourceProblem(int source, int slot, bool is_b) {
  if (source >= 0 && source < 16) return "";
  if (source >= kSourcePrevious && source <= kSourceThreeBack) {
    const int back = source - kSourcePrevious + 1;
    return back <= slot ? "" : fmt::format("reads the result {} slots back", back);
  }
  if (is_b && source >= kSourceSpecial && source < kSourceSpecial + 32) return "";
  return fmt::format("has no source {}", source);
}

std::string GuardProblem(int guard, bool negate, int slot) {
  if (guard < 0 || guard >= kGuardSlot + kSlots) return fmt::format("has no guard {}", guard);
  if (guard >= kGuardSlot && guard - kGuardSlot >= slot) return "is guarded by a slot that does not come before it";
  if (negate && guard == kGuardAlways) return "negates a guard that is not there";
  return "";
}

std::string InstructionProblem(const Instruction& in, int slot) {
  if (FindOp(in.op) == nullptr) return fmt::format("has no op {}", static_cast<int>(in.op));
  if (!SlotCanExecute(slot, in.op)) return fmt::format("cannot execute {}", FindOp(in.op)->name);
  if (in.dst < 0 || in.dst > 15) return fmt::format("has no destination {}", in.dst);
  if ((in.op == Op::kNop || in.op == Op::kSt) && in.dst != 0) return "writes back what has no result";
  for (const auto& [source, is_b] : {std::pair{in.a, false}, {in.b, true}, {in.c, false}}) {
    std::string problem = SourceProblem(source, slot, is_b);
    if (!problem.empty()) return problem;
  }
  if (in.b != kSourceNone && in.immediate != 0) return "has both a source and an immediate for B";
  if (in.c != 0 && in.op != Op::kMad && in.op != Op::kSt && !IsShuffle(in.op)) return "has a C that is not used";
  if (IsShuffle(in.op) && in.c > 1) return "has a shuffle width other than 4 (C = 0) or 2 (C = 1)";
  if (in.op == Op::kNop && (in.a != 0 || in.b != 0 || in.immediate != 0)) return "gives operands to nop";
  if ((in.op == Op::kPSet || in.op == Op::kPAnd || in.op == Op::kPOr || in.op == Op::kPXor) &&
      (in.a != 0 || in.b != 0 || in.immediate != 0)) {
    return "gives operands to a predicate op";
  }
  return GuardProblem(in.guard, in.negate, slot);
}

std::string ControlProblem(const ControlRow& control, int blocks) {
  std::string problem = GuardProblem(control.condition, control.negate, kSlots);
  if (!problem.empty()) return problem;
  if (control.kind == ControlKind::kExit && control.target != 0) return "exits, so its target must be 0";
  if (control.kind != ControlKind::kExit && (control.target < 0 || control.target >= blocks)) {
    return fmt::format("goes to block {} of {}", control.target, blocks);
  }
  if (control.fall_through < 0 || control.fall_through >= blocks) {
    return fmt::format("falls through to block {} of {}", control.fall_through, blocks);
  }
  return "";
}

}  // namespace

const std::vector<OpInfo>& AllOps() {
  static const std::vector<OpInfo> sorted = [] {
    std::vector<OpInfo> ops = kOps;
    std::sort(ops.begin(), ops.end(), [](const OpInfo& x, const OpInfo& y) { return x.op < y.op; });
    return ops;
  }();
  return sorted;
}

const OpInfo* FindOp(Op op) {
  for (const OpInfo& info : AllOps()) {
    if (info.op == op) return &info;
  }
  return nullptr;
}

bool SlotCanExecute(int slot, Op op) {
  const OpInfo* info = FindOp(op);
  if (info == nullptr) return false;
  if (IsShuffle(op)) return slot == 1;
  return slot % 2 == 0 ? info->in_multiply_slots : info->in_general_slots;
}

uint64_t EncodeInstruction(const Instruction& in) {
  return static_cast<uint64_t>(in.op) | uint64_t(in.dst) << 6 | uint64_t(in.a) << 10 | uint64_t(in.b) << 15 |
         uint64_t(in.c) << 21 | uint64_t(in.guard) << 26 | uint64_t{in.negate} << 31 | uint64_t{in.immediate} << 32;
}

Instruction DecodeInstruction(uint64_t row) {
  Instruction in;
  in.op = static_cast<Op>(row & 63);
  in.dst = row >> 6 & 15;
  in.a = row >> 10 & 31;
  in.b = row >> 15 & 63;
  in.c = row >> 21 & 31;
  in.guard = row >> 26 & 31;
  in.negate = row >> 31 & 1;
  in.immediate = static_cast<uint32_t>(row >> 32);
  return in;
}

uint64_t EncodeControl(const ControlRow& control) {
  return uint64_t(control.condition) | uint64_t{control.negate} << 5 | static_cast<uint64_t>(control.kind) << 6 |
         uint64_t(control.target) << 8 | uint64_t(control.fall_through) << 14 | uint64_t{control.serial} << 20 |
         uint64_t{control.yield} << 21;
}

ControlRow DecodeControl(uint64_t row) {
  ControlRow control;
  control.condition = row & 31;
  control.negate = row >> 5 & 1;
  control.kind = static_cast<ControlKind>(row >> 6 & 3);
  control.target = row >> 8 & 63;
  control.fall_through = row >> 14 & 63;
  control.serial = row >> 20 & 1;
  control.yield = row >> 21 & 1;
  return control;
}

absl::Status ValidateProgram(const Program& program, const MachineGeometry& geometry) {
  const int blocks = static_cast<int>(program.blocks.size());
  if (blocks == 0) return absl::InvalidArgumentError("the program has no machine block");
  if (blocks > geometry.blocks) {
    return absl::InvalidArgumentError(
        fmt::format("needs {} machine blocks, the ROM holds {}", blocks, geometry.blocks));
  }
  for (int block = 0; block < blocks; ++block) {
    for (int slot = 0; slot < kSlots; ++slot) {
      const std::string problem = InstructionProblem(program.blocks[block].slots[slot], slot);
      if (!problem.empty()) return absl::InvalidArgumentError(fmt::format("block {} slot {} {}", block, slot, problem));
    }
    const std::string problem = ControlProblem(program.blocks[block].control, blocks);
    if (!problem.empty()) return absl::InvalidArgumentError(fmt::format("block {} control row {}", block, problem));
  }
  return absl::OkStatus();
}

std::string FormatInstruction(const Instruction& in) {
  const OpInfo* info = FindOp(in.op);
  if (info == nullptr) return fmt::format("op{}", static_cast<int>(in.op));
  if (in.op == Op::kNop) return "nop";
  std::string text = info->name;
  const std::string guard = FormatGuard(in.guard, in.negate);
  const std::string a = FormatSource(in.a, 0), b = FormatSource(in.b, in.immediate), c = FormatSource(in.c, 0);
  std::vector<std::string> operands;
  if (in.op == Op::kSt) {
    operands = {fmt::format("[{} + {}]", a, b), c};
  } else {
    operands.push_back(in.dst == 0 ? "-" : fmt::format("{}{}", WritesPredicate(in.op) ? "p" : "r", in.dst));
    if (in.op == Op::kLd) {
      operands.push_back(fmt::format("[{} + {}]", a, b));
    } else if (in.op == Op::kMad) {
      operands.insert(operands.end(), {a, b, c});
    } else if (in.op == Op::kPopc || in.op == Op::kClz || in.op == Op::kBrev) {
      operands.push_back(a);
    } else if (in.op != Op::kBallot && in.op != Op::kPSet && in.op != Op::kPAnd && in.op != Op::kPOr &&
               in.op != Op::kPXor) {
      operands.insert(operands.end(), {a, b});
      if (IsShuffle(in.op)) operands.push_back(in.c == 0 ? "4" : "2");
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? " " : ", ") + operands[i];
  return guard.empty() ? text : text + " if " + guard;
}

std::string FormatControl(const ControlRow& control) {
  const char* verbs[] = {"go to", "exit", "barrier, then", "?"};
  std::string taken = verbs[static_cast<int>(control.kind) & 3];
  if (control.kind != ControlKind::kExit) taken += fmt::format(" {}", control.target);
  const std::string condition = FormatGuard(control.condition, control.negate);
  if (!condition.empty()) taken = fmt::format("if {}: {}, else go to {}", condition, taken, control.fall_through);
  if (control.serial) taken += ", one lane at a time";
  if (control.yield) taken += ", yield";
  return taken;
}

}  // namespace qgpu
