// The machine as a state and three steps: run a block (Pass), write its results back (WriteBack), choose what comes
// next (Schedule). Every token it emits is the one the model must write.
#include "machine/interpreter/interpreter.h"

#include <bit>
#include <cstring>

#include "machine/isa/trap_report.h"

namespace qgpu {
namespace {

bool FitsSigned(uint32_t value, int bits) {
  const int32_t top = static_cast<int32_t>(value) >> (bits - 1);
  return top == 0 || top == -1;
}

struct LaneRecord {
  bool exited = true;
  int phase = 0;
  int block = 0;
};

// What one slot of a pass did.
struct SlotOutcome {
  uint32_t result[kLanes] = {};
  bool predicate[kLanes] = {};
  bool accesses[kLanes] = {};     // ld, st: the lane takes part
  uint32_t address[kLanes] = {};  // byte address
};

struct PassOutcome {
  SlotOutcome slots[kSlots];
  std::optional<TrapReport> trap;
};

class Machine {
 public:
  Machine(const MachineLaunch& launch, int64_t budget) : launch_(launch), budget_(budget) {
    run_.state.memory.assign(MachineGeometry{}.memory_words, 0);
    std::copy(launch.memory.begin(), launch.memory.end(), run_.state.memory.begin());
  }

  MachineRun Run() {
    StartThreadBlock();
    while (!finished_) Schedule();
    return std::move(run_);
  }

 private:
  void Emit(Token token) {
    if (finished_) return;
    run_.tokens.push_back(token);
    if (token.kind == TokenKind::kExec) ++run_.passes;
    if (token.kind == TokenKind::kDone || token.kind == TokenKind::kTrap) {
      finished_ = true;
      run_.end = token.kind == TokenKind::kDone ? LaunchEnd::kDone : LaunchEnd::kTrap;
    } else if (static_cast<int64_t>(run_.tokens.size()) >= budget_) {
      finished_ = true;
      run_.end = LaunchEnd::kBudget;
    }
  }

  uint32_t ThreadCount() const { return launch_.block[0] * launch_.block[1] * launch_.block[2]; }

  void StartThreadBlock() {
    for (int warp = 0; warp < kWarps; ++warp) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const bool exists = static_cast<uint32_t>(warp * kLanes + lane) < ThreadCount();
        lanes_[warp][lane] = {!exists, phase_, 0};
      }
    }
  }

  bool Ready(int warp, int lane) const {
    const LaneRecord& record = lanes_[warp][lane];
    return !record.exited && record.phase == phase_;
  }
  bool WarpReady(int warp) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (Ready(warp, lane)) return true;
    }
    return false;
  }

  // One scheduling decision, from the state alone.
  void Schedule() {
    int next_warp = -1;
    for (int step = 1; step < kWarps && next_warp < 0; ++step) {
      if (WarpReady((warp_ + step) % kWarps)) next_warp = (warp_ + step) % kWarps;
    }
    const bool current_ready = WarpReady(warp_);
    const bool yields = std::exchange(yield_pending_, false);
    if (current_ready && !(yields && next_warp >= 0)) return RunLowestBlock();
    if (next_warp >= 0) {
      warp_ = next_warp;
      return Emit(Token::SwitchWarp(warp_));
    }
    if (!Barrier()) NextThreadBlock();
  }

  void RunLowestBlock() {
    int block = 64;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (Ready(warp_, lane)) block = std::min(block, lanes_[warp_][lane].block);
    }
    int mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (Ready(warp_, lane) && lanes_[warp_][lane].block == block) mask |= 1 << lane;
    }
    Emit(Token::Exec(block, mask));
    const MachineBlock& code = launch_.program.blocks[block];
    if (code.control.serial) mask &= -mask;
    const PassOutcome pass = Pass(code, mask);
    if (pass.trap.has_value()) {
      if (finished_) return;
      run_.trap = pass.trap;
      run_.trap->block = block;
      return Emit(Token::Trap(pass.trap->kind, pass.trap->slot, pass.trap->lane));
    }
    Advance(code.control, mask, pass);
    yield_pending_ = code.control.yield;
    WriteBack(code, mask, pass);
  }

  bool Condition(int guard, bool negate, int lane, const PassOutcome& pass) const {
    if (guard == kGuardAlways) return true;
    const bool value =
        guard >= kGuardSlot ? pass.slots[guard - kGuardSlot].predicate[lane] : predicates_[warp_][lane][guard];
    return value != negate;
  }

  uint32_t Source(int source, uint32_t immediate, int slot, int lane, const PassOutcome& pass) const {
    if (source == kSourceNone) return immediate;
    if (source < 16) return run_.state.registers[warp_][lane][source];
    if (source <= kSourceThreeBack) return pass.slots[slot - 1 - (source - kSourcePrevious)].result[lane];
    return Special(source - kSourceSpecial, lane);
  }

  uint32_t Special(int word, int lane) const {
    const uint32_t thread = warp_ * kLanes + lane;
    const auto& block = launch_.block;
    const bool exists = thread < ThreadCount();
    switch (word) {
      case kSpecialCtaX:
      case kSpecialCtaY:
      case kSpecialCtaZ:
        return cta_[word];
      case kSpecialLaneId:
        return exists ? thread : 0;
      case kSpecialTidX:
        return exists ? thread % block[0] : 0;
      case kSpecialTidY:
        return exists ? thread / block[0] % block[1] : 0;
      case kSpecialTidZ:
        return exists ? thread / (block[0] * block[1]) : 0;
    }
    const size_t parameter = word - kSpecialFirstParameter;
    return parameter < launch_.parameters.size() ? launch_.parameters[parameter] : 0;
  }

  PassOutcome Pass(const MachineBlock& code, int mask) const {
    PassOutcome pass;
    for (int slot = 0; slot < kSlots; ++slot) ExecuteSlot(code.slots[slot], slot, mask, pass);
    return pass;
  }

  void ExecuteSlot(const Instruction& in, int slot, int mask, PassOutcome& pass) const {
    uint32_t a[kLanes] = {}, b[kLanes] = {}, c[kLanes] = {};
    bool guard[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      a[lane] = Source(in.a, 0, slot, lane, pass);
      b[lane] = Source(in.b, in.immediate, slot, lane, pass);
      const bool c_is_width = in.op >= Op::kShflUp && in.op <= Op::kShflIdx;
      c[lane] = c_is_width ? 0 : Source(in.c, 0, slot, lane, pass);
      guard[lane] = Condition(in.guard, in.negate, lane, pass);
    }
    SlotOutcome& out = pass.slots[slot];
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      switch (in.op) {
        case Op::kLd:
        case Op::kSt:
          Access(in.op, slot, lane, a[lane] + b[lane], c[lane], guard[lane], pass);
          break;
        case Op::kBallot:
          for (int other = 0; other < kLanes; ++other) out.result[lane] |= (mask >> other & guard[other]) << other;
          break;
        case Op::kShflUp:
        case Op::kShflDown:
        case Op::kShflBfly:
        case Op::kShflIdx:
          Shuffle(in, lane, mask, a, b[lane], out);
          break;
        default: {
          const bool previous = slot > 0 && pass.slots[slot - 1].predicate[lane];
          const SlotResult result = EvaluateOp(in.op, a[lane], b[lane], c[lane], guard[lane], previous);
          out.result[lane] = result.value;
          out.predicate[lane] = result.predicate;
        }
      }
    }
  }

  void Access(Op op, int slot, int lane, uint32_t address, uint32_t value, bool guard, PassOutcome& pass) const {
    SlotOutcome& out = pass.slots[slot];
    if (op == Op::kSt) out.result[lane] = value;
    if (!guard) return;
    out.accesses[lane] = true;
    out.address[lane] = address;
    const uint32_t word = address >> 2;
    const bool misaligned = (address & 3) != 0;
    if (misaligned || word == 0 || word >= run_.state.memory.size()) {
      if (pass.trap.has_value()) return;  // slots and lanes come in ascending order: the first one counts
      TrapReport trap;
      trap.kind = misaligned ? TrapKind::kMisaligned : TrapKind::kOutOfRange;
      trap.slot = slot;
      trap.lane = lane;
      trap.warp = warp_;
      trap.cta = cta_;
      const uint32_t thread = warp_ * kLanes + lane;
      trap.thread = {thread % launch_.block[0], thread / launch_.block[0] % launch_.block[1],
                     thread / (launch_.block[0] * launch_.block[1])};
      trap.address = address;
      pass.trap = trap;
      return;
    }
    if (op == Op::kLd) out.result[lane] = run_.state.memory[word];
  }

  static void Shuffle(const Instruction& in, int lane, int mask, const uint32_t* a, uint32_t b, SlotOutcome& out) {
    const int width = in.c == 0 ? 4 : 2;
    const int base = lane & ~(width - 1), own = lane - base;
    int64_t source = own;
    switch (in.op) {
      case Op::kShflUp:
        source = own - static_cast<int64_t>(b & 31);
        break;
      case Op::kShflDown:
        source = own + static_cast<int64_t>(b & 31);
        break;
      case Op::kShflBfly:
        source = own ^ static_cast<int64_t>(b & 31);
        break;
      default:
        source = b & (width - 1);
    }
    const bool in_range = source >= 0 && source < width;
    out.predicate[lane] = in_range;
    const int64_t from = in_range ? base + source : lane;
    out.result[lane] = mask >> from & 1 ? a[from] : a[lane];
  }

  void Advance(const ControlRow& control, int mask, const PassOutcome& pass) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      LaneRecord& record = lanes_[warp_][lane];
      const bool taken = Condition(control.condition, control.negate, lane, pass);
      record.block = taken ? control.target : control.fall_through;
      if (taken && control.kind == ControlKind::kExit) record = {true, phase_, 0};
      if (taken && control.kind == ControlKind::kBarrier) record.phase = 1 - phase_;
    }
  }

  // The value tokens of one item: 8, 20 or 32 bits. Once the budget is spent nothing more takes effect.
  void EmitValue(Token first, uint32_t value) {
    Emit(first);
    if (!FitsSigned(value, 8)) Emit(Token::Val1(static_cast<int>(value >> 8 & 4095)));
    if (!FitsSigned(value, 20)) Emit(Token::Val2(static_cast<int>(value >> 20)));
  }

  void WriteBack(const MachineBlock& code, int mask, const PassOutcome& pass) {
    for (int slot = 0; slot < kSlots && !finished_; ++slot) {
      const Instruction& in = code.slots[slot];
      if (in.op == Op::kSt) {
        WriteStores(slot, pass.slots[slot]);
      } else if (in.dst != 0 && WritesPredicate(in.op)) {
        WritePredicate(slot, in.dst, mask, pass.slots[slot]);
      } else if (in.dst != 0) {
        WriteRegister(slot, in.dst, mask, pass.slots[slot]);
      }
    }
  }

  void WriteRegister(int slot, int dst, int mask, const SlotOutcome& out) {
    const int first = std::countr_zero(static_cast<unsigned>(mask));
    bool uniform = true;
    for (int lane = 0; lane < kLanes; ++lane) uniform &= !(mask >> lane & 1) || out.result[lane] == out.result[first];
    for (int lane = 0; lane < kLanes && !finished_; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const uint32_t value = out.result[lane];
      if (!uniform) {
        EmitValue(Token::Val0(slot, lane, static_cast<int>(value & 255)), value);
      } else if (lane == first) {
        EmitValue(Token::Val0U(slot, static_cast<int>(value & 255)), value);
      }
      run_.state.registers[warp_][lane][dst] = value;
    }
  }

  void WritePredicate(int slot, int dst, int mask, const SlotOutcome& out) {
    int bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool value = mask >> lane & 1 ? out.predicate[lane] : predicates_[warp_][lane][dst];
      bits |= value << lane;
    }
    Emit(Token::Pred(slot, bits));
    for (int lane = 0; lane < kLanes; ++lane) predicates_[warp_][lane][dst] = bits >> lane & 1;
  }

  void WriteStores(int slot, const SlotOutcome& out) {
    int bases = 0, base = -1;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!out.accesses[lane]) continue;
      const int of_lane = (static_cast<int>(out.address[lane] >> 2) - lane) & 127;
      if (of_lane != base) ++bases;
      base = of_lane;
    }
    const bool coalesced = bases == 1;
    bool first = true;
    for (int lane = 0; lane < kLanes && !finished_; ++lane) {
      if (!out.accesses[lane]) continue;
      if (first || !coalesced) Emit(Token::Mem((static_cast<int>(out.address[lane] >> 2) - lane) & 127));
      first = false;
      if (finished_) return;
      const uint32_t value = out.result[lane];
      EmitValue(Token::Val0(slot, lane, static_cast<int>(value & 255)), value);
      run_.state.memory[out.address[lane] >> 2] = value;
    }
  }

  // True when lanes wait: they go on together, or the launch traps.
  bool Barrier() {
    int block = -1;
    bool same = true;
    for (const auto& warp : lanes_) {
      for (const LaneRecord& record : warp) {
        if (record.exited) continue;
        if (block >= 0 && record.block != block) same = false;
        block = record.block;
      }
    }
    if (block < 0) return false;
    if (same) {
      phase_ = 1 - phase_;
      Emit(Token::Bar(phase_));
    } else {
      TrapReport trap;
      trap.kind = TrapKind::kBarrierDivergence;
      trap.warp = warp_;
      trap.cta = cta_;
      LocateBarrierDivergence(launch_, run_.tokens, trap);
      run_.trap = trap;
      Emit(Token::Trap(TrapKind::kBarrierDivergence, 0, 0));
    }
    return true;
  }

  void NextThreadBlock() {
    int axis = 0;
    while (axis < 3 && cta_[axis] + 1 == launch_.grid[axis]) ++axis;
    if (axis == 3) return Emit(Token::Done());
    for (int i = 0; i < axis; ++i) {
      cta_[i] = 0;
      Emit(Token::Cta(i, 0));
    }
    ++cta_[axis];
    Emit(Token::Cta(axis, static_cast<int>(cta_[axis])));
    StartThreadBlock();
    for (int warp = 0; warp < kWarps; ++warp) {
      int mask = 0;
      for (int lane = 0; lane < kLanes; ++lane) mask |= !lanes_[warp][lane].exited << lane;
      if (mask != 0) Emit(Token::Warp(warp, mask));
    }
  }

  const MachineLaunch& launch_;
  const int64_t budget_;
  MachineRun run_;
  bool finished_ = false;
  LaneRecord lanes_[kWarps][kLanes];
  bool predicates_[kWarps][kLanes][16] = {};
  int warp_ = 0;
  int phase_ = 0;
  bool yield_pending_ = false;
  std::array<uint32_t, 3> cta_ = {0, 0, 0};
};

bool Compare(Op op, uint32_t a, uint32_t b) {
  const int32_t sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
  switch (op) {
    case Op::kSetEq:
      return a == b;
    case Op::kSetNe:
      return a != b;
    case Op::kSetGeU:
      return a >= b;
    case Op::kSetGeS:
      return sa >= sb;
    case Op::kSetGtU:
      return a > b;
    case Op::kSetGtS:
      return sa > sb;
    case Op::kSetLtU:
      return a < b;
    case Op::kSetLtS:
      return sa < sb;
    case Op::kSetLeU:
      return a <= b;
    default:
      return sa <= sb;
  }
}

uint32_t ReverseBits(uint32_t x) {
  uint32_t reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}

}  // namespace

SlotResult EvaluateOp(Op op, uint32_t a, uint32_t b, uint32_t c, bool guard, bool previous) {
  const int32_t sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
  switch (op) {
    case Op::kMad:
      return {a * b + c};
    case Op::kAnd:
      return {a & b};
    case Op::kOr:
      return {a | b};
    case Op::kXor:
      return {a ^ b};
    case Op::kAdd:
      return {a + b, guard && a + b != 0};
    case Op::kSub:
      return {a - b, guard && a != b};
    case Op::kMinU:
      return {std::min(a, b)};
    case Op::kMinS:
      return {static_cast<uint32_t>(std::min(sa, sb))};
    case Op::kMaxU:
      return {std::max(a, b)};
    case Op::kMaxS:
      return {static_cast<uint32_t>(std::max(sa, sb))};
    case Op::kSelp:
      return {guard ? a : b};
    case Op::kShl:
      return {b < 32 ? a << b : 0};
    case Op::kShr:
      return {b < 32 ? a >> b : 0};
    case Op::kSar:
      return {static_cast<uint32_t>(sa >> std::min<uint32_t>(b, 31))};
    case Op::kPopc:
      return {static_cast<uint32_t>(std::popcount(a))};
    case Op::kClz:
      return {static_cast<uint32_t>(std::countl_zero(a))};
    case Op::kBrev:
      return {ReverseBits(a)};
    case Op::kPSet:
      return {0, guard};
    case Op::kPAnd:
      return {0, guard && previous};
    case Op::kPOr:
      return {0, guard || previous};
    case Op::kPXor:
      return {0, guard != previous};
    default:
      break;
  }
  if (WritesPredicate(op)) return {a - b, guard && Compare(op, a, b)};
  return {};
}

MachineRun Interpret(const MachineLaunch& launch, int64_t token_budget) { return Machine(launch, token_budget).Run(); }

}  // namespace qgpu
