#include "cli/trace_narrator.h"

#include <bit>

#include "fmt/format.h"
#include "machine/isa/trap_report.h"

namespace qgpu {
namespace {

int32_t Signed(uint32_t value) { return static_cast<int32_t>(value); }

uint32_t SignExtend(uint32_t value, int bits) {
  return static_cast<uint32_t>(Signed(value << (32 - bits)) >> (32 - bits));
}

}  // namespace

// "thread 5", "threads 4 to 7", "threads 4, 6".
std::string TraceNarrator::Threads(int mask) const {
  if (mask == 0) return "no thread";
  const int first = std::countr_zero(static_cast<unsigned>(mask)), count = std::popcount(static_cast<unsigned>(mask));
  const int thread = warp_ * kLanes;
  if (count == 1) return fmt::format("thread {}", thread + first);
  if (count > 2 && mask >> first == (1 << count) - 1) {
    return fmt::format("threads {} to {}", thread + first, thread + first + count - 1);
  }
  std::string text;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) text += fmt::format("{}{}", text.empty() ? "threads " : ", ", thread + lane);
  }
  return text;
}

TraceNarrator::Line TraceNarrator::OfSlot(int slot, std::string what) const {
  Line line{std::move(what)};
  const auto& origins = launch_.program.origins;
  if (block_ >= 0 && block_ < static_cast<int>(origins.size())) {
    line.origin = origins[block_][slot];
  }
  return line;
}

TraceNarrator::Line TraceNarrator::NarrateExec(Token token) {
  block_ = token.block();
  mask_ = token.mask();
  if (block_ >= static_cast<int>(launch_.program.blocks.size())) {
    return {fmt::format("{} run block {}, which the program does not have", Threads(mask_), block_)};
  }
  const MachineBlock& code = launch_.program.blocks[block_];
  std::string text;
  int first_slot = kSlots;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (code.slots[slot].op == Op::kNop) continue;
    text += FormatInstruction(code.slots[slot]) + "; ";
    if (first_slot == kSlots) first_slot = slot;
  }
  if (code.control.serial) mask_ &= -mask_;
  return OfSlot(first_slot, fmt::format("{}: {}{}", Threads(mask_), text, FormatControl(code.control)));
}

TraceNarrator::Line TraceNarrator::NarrateValue(Token token, int chunk) {
  if (chunk == 0) {
    slot_ = token.slot();
    lane_mask_ = token.kind == TokenKind::kVal0U ? mask_ : 1 << token.lane();
    value_ = SignExtend(static_cast<uint32_t>(token.byte()), 8);
  } else if (chunk == 1) {
    value_ = SignExtend((value_ & 0xff) | static_cast<uint32_t>(token.low()) << 8, 20);
  } else {
    value_ = (value_ & 0xfffff) | static_cast<uint32_t>(token.low()) << 20;
  }
  if (block_ < 0 || block_ >= static_cast<int>(launch_.program.blocks.size())) return {"a value of no block"};
  const Instruction& in = launch_.program.blocks[block_].slots[slot_];
  if (in.op == Op::kSt) {
    const int word = (store_base_ + std::countr_zero(static_cast<unsigned>(lane_mask_))) & 127;
    return OfSlot(slot_, fmt::format("{}: word {} = {}", Threads(lane_mask_), word, Signed(value_)));
  }
  return OfSlot(slot_, fmt::format("{}: r{} = {}", Threads(lane_mask_), in.dst, Signed(value_)));
}

TraceNarrator::Line TraceNarrator::NarratePredicates(Token token) {
  if (block_ < 0 || block_ >= static_cast<int>(launch_.program.blocks.size())) return {"predicates of no block"};
  const int dst = launch_.program.blocks[block_].slots[token.slot()].dst;
  std::string text = fmt::format("p{} is", dst);
  for (const bool value : {true, false}) {
    const int lanes = (value ? token.mask() : ~token.mask()) & mask_;
    if (lanes != 0) text += fmt::format("{} {} for {}", text.back() == 's' ? "" : ",", value, Threads(lanes));
  }
  return OfSlot(token.slot(), text);
}

TraceNarrator::Line TraceNarrator::Narrate(Token token) {
  switch (token.kind) {
    case TokenKind::kExec:
      return NarrateExec(token);
    case TokenKind::kSwitchWarp:
      warp_ = token.warp();
      return {fmt::format("{} are next", Threads(15))};
    case TokenKind::kVal0:
    case TokenKind::kVal0U:
      return NarrateValue(token, 0);
    case TokenKind::kVal1:
      return NarrateValue(token, 1);
    case TokenKind::kVal2:
      return NarrateValue(token, 2);
    case TokenKind::kPred:
      return NarratePredicates(token);
    case TokenKind::kMem:
      store_base_ = token.low();
      return {fmt::format("stores that follow go to word {} + lane", store_base_)};
    case TokenKind::kBar:
      return {"all threads are at the barrier and go on"};
    case TokenKind::kCtaX:
    case TokenKind::kCtaY:
    case TokenKind::kCtaZ:
      return {fmt::format("next thread block: blockIdx.{} = {}",
                          "xyz"[static_cast<int>(token.kind) - static_cast<int>(TokenKind::kCtaX)], token.low())};
    case TokenKind::kWarp:
      return {fmt::format("machine warp {} starts with lanes 0b{:04b}", token.warp(), token.mask())};
    case TokenKind::kTrap: {
      const auto kind = static_cast<TrapKind>(token.low() & 3);
      if (kind == TrapKind::kBarrierDivergence) return {TrapName(kind)};
      return OfSlot(token.slot(), fmt::format("{}: {}", Threads(1 << token.lane()), TrapName(kind)));
    }
    case TokenKind::kDone:
      return {"the launch is done"};
    default:
      return {"a token that only the host feeds"};
  }
}

}  // namespace qgpu
