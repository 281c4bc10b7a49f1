// Handlers of what the threads of a warp do together, of special registers, and of what is refused with a reason.
//
// By now no such instruction has a guard: ExpandBranches has made branches around them.
#include <map>

#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {

// ---- special registers ----

// A thread block is one CUDA warp: it has at most 32 threads.
int Translator::LaneId() {
  if (block_.Count() == 1) return Const32(0);
  return f().Special(Type::kI32, block_.y == 1 && block_.z == 1 ? kSpecialTidX : kSpecialLaneId);
}

int Translator::LaneMask(const std::string& kind) {
  const auto not_of = [&](int value) { return Emit32(IrOp::kXor, {value, Const32(~0u)}); };
  const int from = Emit32(IrOp::kShl, {Const32(~0u), LaneId()});  // this lane and those above it
  if (kind == "ge") return from;
  if (kind == "lt") return not_of(from);
  if (kind == "eq") return Emit32(IrOp::kShl, {Const32(1), LaneId()});
  const int above = Emit32(IrOp::kShl, {Const32(~0u << 1), LaneId()});
  return kind == "gt" ? above : not_of(above);
}

absl::StatusOr<int> Translator::ReadSpecial(const PtxInstruction& in, const Operand& operand) {
  const size_t dot = operand.name.find('.');
  const std::string name = operand.name.substr(0, dot);
  const std::string component = dot == std::string::npos ? "" : operand.name.substr(dot + 1);
  const bool is_vector = name == "%tid" || name == "%ctaid" || name == "%ntid" || name == "%nctaid";
  const size_t axis = component.size() == 1 ? std::string("xyzw").find(component) : std::string::npos;
  if (is_vector != (axis != std::string::npos)) {
    return Unsupported(in, fmt::format("special register {}", operand.name));
  }
  if (axis == 3) return Const32(0);
  const uint32_t block_sizes[] = {block_.x, block_.y, block_.z}, grid_sizes[] = {grid_.x, grid_.y, grid_.z};
  const auto special = [&](int word) { return f().Special(Type::kI32, word); };
  if (name == "%tid") return block_sizes[axis] == 1 ? Const32(0) : special(kSpecialTidX + static_cast<int>(axis));
  if (name == "%ctaid") return grid_sizes[axis] == 1 ? Const32(0) : special(kSpecialCtaX + static_cast<int>(axis));
  if (name == "%ntid") return Const32(block_sizes[axis]);
  if (name == "%nctaid") return Const32(grid_sizes[axis]);
  if (name == "%laneid") return LaneId();
  if (name == "%warpid") return Const32(0);
  if (name == "%nwarpid") return Const32(1);
  if (name == "%dynamic_smem_size") return Const32(layout_.dynamic_shared_bytes());
  if (name.rfind("%lanemask_", 0) == 0) return LaneMask(name.substr(10));
  if (name == "%dynamic_smem_size") return Const32(layout_.dynamic_shared_bytes());
  static const std::map<std::string, std::string> reasons = {
      {"%total_smem_size", "a device rounds it up as it likes"},
      {"%smid", "there are no multiprocessors to number"},
      {"%nsmid", "there are no multiprocessors to number"},
      {"%gridid", "launches have no numbers"},
      {"%clock", "there is no clock"},
      {"%clock_hi", "there is no clock"},
      {"%clock64", "there is no clock"},
      {"%globaltimer", "there is no clock"},
      {"%globaltimer_lo", "there is no clock"},
      {"%globaltimer_hi", "there is no clock"},
  };
  const auto reason = reasons.find(name);
  return Unsupported(in, fmt::format("special register {}{}", ptx::ToString(operand),
                                     reason == reasons.end() ? "" : ": " + reason->second));
}

// ---- shuffles, votes, matches ----

absl::Status Translator::ExpectNoGuard(const PtxInstruction& in) {
  return in.guard ? Unsupported(in, "predicated here") : absl::OkStatus();
}

absl::StatusOr<int> Translator::ReadMembers(const PtxInstruction& in, size_t operand) {
  return Read(in, in.operands[operand], Type::kI32);
}

// Whether the lane that a shuffle names lies in the segment: PTX's second result.
int Translator::ShuffleInRange(ShuffleMode mode, int b, int c) {
  const int lane = LaneId();
  const int segment = Emit32(IrOp::kAnd, {Emit32(IrOp::kShr, {c, Const32(8)}), Const32(31)});
  const int inside = Emit32(IrOp::kXor, {segment, Const32(31)});
  const int first = Emit32(IrOp::kAnd, {lane, segment});
  const int last = Emit32(IrOp::kOr, {first, Emit32(IrOp::kAnd, {c, inside})});
  const int offset = Emit32(IrOp::kAnd, {b, Const32(31)});
  switch (mode) {
    case ShuffleMode::kUp:
      return Comparison(Compare::kGeS, Emit32(IrOp::kSub, {lane, offset}), last);
    case ShuffleMode::kDown:
      return Comparison(Compare::kLeS, Emit32(IrOp::kAdd, {lane, offset}), last);
    case ShuffleMode::kXor:
      return Comparison(Compare::kLeS, Emit32(IrOp::kXor, {lane, offset}), last);
    case ShuffleMode::kIndex:
      return Comparison(Compare::kLeS, Emit32(IrOp::kOr, {first, Emit32(IrOp::kAnd, {offset, inside})}), last);
  }
  return -1;
}

// shfl.sync.mode.b32 d|p, a, b, c, members;  before sm_70 also without .sync and members: all threads.
absl::Status Translator::ShuffleLanes(const PtxInstruction& in, const Row&) {
  static const std::map<std::string, ShuffleMode> modes = {{"up", ShuffleMode::kUp},
                                                           {"down", ShuffleMode::kDown},
                                                           {"bfly", ShuffleMode::kXor},
                                                           {"idx", ShuffleMode::kIndex}};
  Modifiers modifiers(in.modifiers);
  const bool sync = modifiers.Take("sync");
  std::optional<ShuffleMode> mode;
  for (const auto& [name, known] : modes) {
    if (modifiers.Take(name)) mode = known;
  }
  if (!mode || !modifiers.Take("b32") || !modifiers.empty()) return Unsupported(in);
  if (!sync) QGPU_RETURN_IF_ERROR(ExpectOldTarget(in));
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  QGPU_RETURN_IF_ERROR(Expect(in, sync ? 5 : 4));
  std::vector<int> args;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(const int arg, Read(in, in.operands[i], Type::kI32));
    args.push_back(arg);
  }
  int members = Const32(~0u);
  if (sync) {
    QGPU_ASSIGN_OR_RETURN(members, ReadMembers(in, 4));
  }
  const int b = args[1], c = args[2];
  args.push_back(members);
  const int value = Emit32(IrOp::kShuffle, std::move(args));
  f().at(value).immediate = static_cast<uint64_t>(*mode);
  const Operand& result = in.operands[0];
  if (result.kind != OperandKind::kPair || result.elements.size() != 2) return Write(in, result, value);
  const int in_range = ShuffleInRange(*mode, b, c);  // before the result, which may be written to the same registers
  QGPU_RETURN_IF_ERROR(Write(in, result.elements[0], value));
  return Write(in, result.elements[1], in_range);
}

absl::Status Translator::ExpectOldTarget(const PtxInstruction& in) {
  const std::string digits = module_.target.substr(0, module_.target.find_last_of("0123456789") + 1);
  const size_t underscore = digits.find('_');
  const int architecture = underscore == std::string::npos ? 0 : std::atoi(digits.c_str() + underscore + 1);
  if (architecture < 70) return absl::OkStatus();
  return Wrong(in, fmt::format("{} has no {} without .sync", module_.target, in.opcode));
}

// vote.sync.mode.pred d, a, members;  vote.sync.ballot.b32 d, a, members;
absl::Status Translator::Vote(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool sync = modifiers.Take("sync");
  std::string mode;
  for (const char* name : {"all", "any", "uni", "ballot"}) {
    if (modifiers.Take(name)) mode = name;
  }
  if (mode.empty() || !modifiers.Take(mode == "ballot" ? "b32" : "pred") || !modifiers.empty()) return Unsupported(in);
  if (!sync) QGPU_RETURN_IF_ERROR(ExpectOldTarget(in));
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  QGPU_RETURN_IF_ERROR(Expect(in, sync ? 3 : 2));
  QGPU_ASSIGN_OR_RETURN(const int predicate, Read(in, in.operands[1], Type::kPredicate));
  int members = Const32(~0u);
  if (sync) {
    QGPU_ASSIGN_OR_RETURN(members, ReadMembers(in, 2));
  }
  const auto ballot = [&](bool negate) {
    const int voted = negate ? Emit(IrOp::kPredNot, Type::kPredicate, {predicate}) : predicate;
    return Emit32(IrOp::kBallot, {voted, members});
  };
  const auto nobody = [&](bool negate) { return Comparison(Compare::kEq, ballot(negate), Const32(0)); };
  const Operand& result = in.operands[0];
  if (mode == "ballot") return Write(in, result, ballot(false));
  if (mode == "all") return Write(in, result, nobody(true));
  if (mode == "any") return Write(in, result, Comparison(Compare::kNe, ballot(false), Const32(0)));
  return Write(in, result, Emit(IrOp::kPredOr, Type::kPredicate, {nobody(false), nobody(true)}));
}

// match.any.sync.type d, a, members;  match.all.sync.type d|p, a, members;
absl::Status Translator::Match(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool any = modifiers.Take("any"), all = modifiers.Take("all"), sync = modifiers.Take("sync");
  const bool wide = modifiers.Take("b64");
  if (any == all || !sync || (!wide && !modifiers.Take("b32")) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const int value, Read(in, in.operands[1], wide ? Type::kI64 : Type::kI32));
  std::vector<int> args = {value};
  if (wide) {
    const int high = Emit(IrOp::kShr, Type::kI64, {value, Const32(32)});
    args = {Emit32(IrOp::kTruncate, {value}), Emit32(IrOp::kTruncate, {high})};
  }
  QGPU_ASSIGN_OR_RETURN(const int members, ReadMembers(in, 2));
  args.push_back(members);
  const int mask = Emit32(any ? IrOp::kMatchAny : IrOp::kMatchAll, std::move(args));
  const Operand& result = in.operands[0];
  if (result.kind != OperandKind::kPair || result.elements.size() != 2) return Write(in, result, mask);
  if (any) return Wrong(in, "has one result");
  QGPU_RETURN_IF_ERROR(Write(in, result.elements[0], mask));
  return Write(in, result.elements[1], Comparison(Compare::kNe, mask, Const32(0)));
}

absl::Status Translator::ActiveMask(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (!modifiers.Take("b32") || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  QGPU_RETURN_IF_ERROR(Expect(in, 1));
  return Write(in, in.operands[0], Emit32(IrOp::kActiveMask, {}));
}

// ---- barriers other than bar.sync ----

// bar.warp.sync members;  bar.red.popc.u32 d, 0, p;  bar.red.{and,or}.pred d, 0, p;
absl::Status Translator::OtherBarrier(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  if (modifiers.Take("warp")) {
    if (!modifiers.Take("sync") || !modifiers.empty()) return Unsupported(in);
    QGPU_RETURN_IF_ERROR(Expect(in, 1));
    QGPU_ASSIGN_OR_RETURN(const int members, ReadMembers(in, 0));
    Emit(IrOp::kWarpSync, Type::kNone, {members});
    return absl::OkStatus();
  }
  modifiers.Take("cta");
  if (!modifiers.Take("red")) return Unsupported(in, "a barrier at which not everybody waits");
  modifiers.Take("aligned");
  std::string mode;
  for (const char* name : {"popc", "and", "or"}) {
    if (modifiers.Take(name)) mode = name;
  }
  if (mode.empty() || !modifiers.Take(mode == "popc" ? "u32" : "pred") || !modifiers.empty()) return Unsupported(in);
  if (in.operands.size() < 3) return Wrong(in, "has not all of its operands");
  const auto is = [&](size_t operand, uint64_t value) {
    return in.operands[operand].kind == OperandKind::kInteger && in.operands[operand].value == value;
  };
  const uint64_t threads = block_.Count();
  if (!is(1, 0)) return Unsupported(in, "only barrier 0 is");
  if (in.operands.size() == 4 && !is(2, threads) && !is(2, (threads + 31) / 32 * 32)) {
    return Unsupported(in, fmt::format("a barrier of a part of the thread block, which has {} threads", threads));
  }
  if (in.operands.size() > 4) return Wrong(in, "has too many operands");
  QGPU_ASSIGN_OR_RETURN(int predicate, Read(in, in.operands.back(), Type::kPredicate));
  if (mode == "and") predicate = Emit(IrOp::kPredNot, Type::kPredicate, {predicate});
  const int ballot = Emit32(IrOp::kBlockBallot, {predicate});
  if (mode == "popc") return Write(in, in.operands[0], Emit32(IrOp::kPopc, {ballot}));
  return Write(in, in.operands[0], Comparison(mode == "and" ? Compare::kEq : Compare::kNe, ballot, Const32(0)));
}

// ---- hints, and what is refused ----

// A hint about time, which does not exist here; performance events likewise.
absl::Status Translator::Nanosleep(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (in.opcode == "nanosleep" ? !modifiers.Take("u32") : false) return Unsupported(in);
  if (in.opcode == "pmevent") modifiers.Take("mask");
  if (!modifiers.empty()) return Unsupported(in);
  return Expect(in, 1);
}

absl::Status Translator::RefuseByName(const PtxInstruction& in, const Row&) {
  static const std::map<std::string, std::string> reasons = {
      {"brkpt", "there is no debugger"},
      {"redux", "sm_80 and later have it, a T4 does not"},
      {"elect", "sm_90 and later have it, a T4 does not"},
      {"call", "calls through function pointers"},
      {"brx", "indirect branches without a list of targets"},
  };
  return Unsupported(in, reasons.at(in.opcode));
}

}  // namespace qgpu::lower
