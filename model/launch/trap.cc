// ExplainTrap: the trapping pass once more, from what the state and the run's own tokens say it started from.
#include <bit>

#include "machine/interpreter/interpreter.h"
#include "machine/isa/trap_report.h"
#include "model/launch/launch.h"

namespace qgpu {
namespace {

class PassReplay {
 public:
  PassReplay(const MachineLaunch& launch, const ModelRun& run)
      : launch_(launch), run_(run), code_(launch.program.blocks[run.context.block]), mask_(run.context.mask) {
    if (code_.control.serial) mask_ &= -mask_;
    CollectPredicates();
  }

  // The byte address that `lane` accesses in `slot`; nothing when it does not access memory there.
  std::optional<uint32_t> Address(int slot, int lane) {
    for (int earlier = 0; earlier < slot; ++earlier) Execute(earlier);
    const Instruction& in = code_.slots[slot];
    if ((in.op != Op::kLd && in.op != Op::kSt) || !Active(lane) || !Guard(in, lane)) return std::nullopt;
    return Source(in.a, 0, slot, lane) + Source(in.b, in.immediate, slot, lane);
  }

 private:
  bool Active(int lane) const { return mask_ >> lane & 1; }

  // The predicates that PRED tokens left for the current warp before the last EXEC.
  void CollectPredicates() {
    const MachineBlock* block = nullptr;
    int warp = 0;
    for (const Token token : run_.tokens) {
      if (token.kind == TokenKind::kSwitchWarp) warp = token.warp();
      if (token.kind == TokenKind::kExec && token.block() < static_cast<int>(launch_.program.blocks.size())) {
        block = &launch_.program.blocks[token.block()];
      }
      if (token.kind != TokenKind::kPred || block == nullptr || warp != run_.context.warp) continue;
      const int dst = block->slots[token.slot()].dst;
      for (int lane = 0; lane < kLanes; ++lane) predicates_[lane][dst] = token.mask() >> lane & 1;
    }
  }

  bool Guard(const Instruction& in, int lane) const {
    if (in.guard == kGuardAlways) return true;
    const bool value =
        in.guard >= kGuardSlot ? slot_predicate_[in.guard - kGuardSlot][lane] : predicates_[lane][in.guard];
    return value != in.negate;
  }

  uint32_t Source(int source, uint32_t immediate, int slot, int lane) const {
    if (source == kSourceNone) return immediate;
    if (source < kSourcePrevious) return run_.state.registers[run_.context.warp][lane][source];
    if (source <= kSourceThreeBack) {
      const int from = slot - 1 - (source - kSourcePrevious);
      return from >= 0 ? result_[from][lane] : 0;
    }
    return Special(source - kSourceSpecial, lane);
  }

  uint32_t Special(int word, int lane) const {
    const uint32_t thread = static_cast<uint32_t>(run_.context.warp * kLanes + lane);
    switch (word) {
      case kSpecialCtaX:
      case kSpecialCtaY:
      case kSpecialCtaZ:
        return run_.context.cta[word];
      case kSpecialLaneId:
        return thread;
      case kSpecialTidX:
        return thread % launch_.block[0];
      case kSpecialTidY:
        return thread / launch_.block[0] % launch_.block[1];
      case kSpecialTidZ:
        return thread / (launch_.block[0] * launch_.block[1]);
      default:
        break;
    }
    const size_t parameter = static_cast<size_t>(word - kSpecialFirstParameter);
    return parameter < launch_.parameters.size() ? launch_.parameters[parameter] : 0;
  }

  void Execute(int slot) {
    const Instruction& in = code_.slots[slot];
    uint32_t a[kLanes] = {};
    bool guard[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!Active(lane)) continue;
      a[lane] = Source(in.a, 0, slot, lane);
      guard[lane] = Guard(in, lane);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!Active(lane)) continue;
      const uint32_t b = Source(in.b, in.immediate, slot, lane);
      if (in.op >= Op::kShflUp && in.op <= Op::kShflIdx) {
        Shuffle(in, slot, lane, a, b);
        continue;
      }
      const uint32_t c = Source(in.c, 0, slot, lane);
      if (in.op == Op::kLd) {
        const uint32_t word = (a[lane] + b) >> 2;
        result_[slot][lane] = guard[lane] && word < run_.state.memory.size() ? run_.state.memory[word] : 0;
      } else if (in.op == Op::kSt) {
        result_[slot][lane] = c;
      } else if (in.op == Op::kBallot) {
        for (int other = 0; other < kLanes; ++other) {
          result_[slot][lane] |= static_cast<uint32_t>(Active(other) && guard[other]) << other;
        }
      } else {
        const bool previous = slot > 0 && slot_predicate_[slot - 1][lane];
        const SlotResult result = EvaluateOp(in.op, a[lane], b, c, guard[lane], previous);
        result_[slot][lane] = result.value;
        slot_predicate_[slot][lane] = result.predicate;
      }
    }
  }

  // Within segments of 4 lanes, or of 2 when C is set; amounts modulo 32; outside, or from a lane that is not active,
  // the lane's own value.
  void Shuffle(const Instruction& in, int slot, int lane, const uint32_t* a, uint32_t b) {
    const int width = in.c == 0 ? 4 : 2, base = lane & ~(width - 1), own = lane - base;
    const int amount = static_cast<int>(b & 31);
    int from = static_cast<int>(b) & (width - 1);
    if (in.op == Op::kShflUp) from = own - amount;
    if (in.op == Op::kShflDown) from = own + amount;
    if (in.op == Op::kShflBfly) from = own ^ amount;
    const bool in_range = from >= 0 && from < width;
    slot_predicate_[slot][lane] = in_range;
    result_[slot][lane] = in_range && Active(base + from) ? a[base + from] : a[lane];
  }

  const MachineLaunch& launch_;
  const ModelRun& run_;
  const MachineBlock& code_;
  int mask_;
  uint32_t result_[kSlots][kLanes] = {};
  bool slot_predicate_[kSlots][kLanes] = {};
  bool predicates_[kLanes][16] = {};
};

}  // namespace

absl::StatusOr<TrapReport> ExplainTrap(const MachineLaunch& launch, const ModelRun& run) {
  if (!run.fault.ok()) return run.fault;
  if (run.end != LaunchEnd::kTrap) return absl::InvalidArgumentError("the launch did not trap");
  const Token token = run.tokens.back();
  TrapReport trap;
  trap.kind = static_cast<TrapKind>(token.low() & 3);
  trap.slot = token.slot();
  trap.lane = token.lane();
  trap.warp = run.context.warp;
  trap.cta = run.context.cta;
  if (trap.kind == TrapKind::kBarrierDivergence) {
    LocateBarrierDivergence(launch, run.tokens, trap);
    return trap;
  }
  const std::string what = FormatToken(token);
  if (!run.context.executed || run.context.block >= static_cast<int>(launch.program.blocks.size())) {
    return absl::DataLossError(fmt::format("{}: the state names no block of the program as the last one", what));
  }
  trap.block = run.context.block;
  const uint32_t thread = static_cast<uint32_t>(trap.warp * kLanes + trap.lane);
  trap.thread = {thread % launch.block[0], thread / launch.block[0] % launch.block[1],
                 thread / (launch.block[0] * launch.block[1])};
  const std::optional<uint32_t> address = PassReplay(launch, run).Address(trap.slot, trap.lane);
  if (!address) {
    return absl::DataLossError(fmt::format("{}: block {} does not access memory there", what, trap.block));
  }
  trap.address = *address;
  return trap;
}

}  // namespace qgpu
