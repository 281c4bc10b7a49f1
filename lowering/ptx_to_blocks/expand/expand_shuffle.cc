// Shuffles: inside a pass where no value leaves its machine warp, otherwise through memory.
#include <bit>

#include "lowering/ptx_to_blocks/expand/warp_expander.h"

namespace qgpu::lower {

bool WarpExpander::StaysInWarp(const IrInstruction& in) const {
  if (OneMachineWarp()) return true;
  const auto b = ConstantOf(in.args[1]), c = ConstantOf(in.args[2]);
  if (static_cast<ShuffleMode>(in.immediate) == ShuffleMode::kXor) return b && (*b & 31) < kLanes;
  return c && (~*c >> 8 & 31) < kLanes;
}

WarpExpander::Wanted WarpExpander::WantedLane(const IrInstruction& in) {
  const auto mode = static_cast<ShuffleMode>(in.immediate);
  const int offset = Masked(in.args[1], 31);
  const auto c = ConstantOf(in.args[2]), b = ConstantOf(in.args[1]);
  const bool whole = c && (*c >> 8 & 31) == 0;  // one segment of 32
  int first, last;                              // of the segment: lane & segment, and what is or-ed to it
  if (c) {
    const uint32_t segment = *c >> 8 & 31;
    first = Masked(Lane(), segment);
    last = Emit(IrOp::kOr, {first, Const(*c & ~segment & 31)});
  } else {
    const int segment = Masked(Emit(IrOp::kShr, {in.args[2], Const(8)}), 31);
    first = Emit(IrOp::kAnd, {Lane(), segment});
    const int inside = Emit(IrOp::kXor, {segment, Const(31)});
    last = Emit(IrOp::kOr, {first, Emit(IrOp::kAnd, {in.args[2], inside})});
  }
  Wanted wanted;
  switch (mode) {
    case ShuffleMode::kUp:
      wanted.lane = Emit(IrOp::kSub, {Lane(), offset});
      wanted.valid = whole ? Test(Compare::kGeU, Lane(), Emit(IrOp::kAdd, {offset, Const(*c & 31)}))
                           : Test(Compare::kGeS, wanted.lane, last);
      return wanted;
    case ShuffleMode::kDown:
      wanted.lane = Emit(IrOp::kAdd, {Lane(), offset});
      break;
    case ShuffleMode::kXor:
      wanted.lane = Emit(IrOp::kXor, {Lane(), offset});
      break;
    case ShuffleMode::kIndex: {
      const int inside = c ? Const(~(*c >> 8) & 31)
                           : Emit(IrOp::kXor, {Masked(Emit(IrOp::kShr, {in.args[2], Const(8)}), 31), Const(31)});
      wanted.lane = Emit(IrOp::kOr, {first, Emit(IrOp::kAnd, {offset, inside})});
    }
  }
  // Not behind the segment's last lane, and not behind the last thread.
  const uint32_t inside = c ? ~(*c >> 8) & 31 : 31;
  const bool to_the_end = c && (*c & inside) == inside;
  const bool full_segments = std::has_single_bit(inside + 1) && threads_ % static_cast<int>(inside + 1) == 0;
  if (mode == ShuffleMode::kXor && to_the_end && b) {
    // Never out of a segment that is longer, nor behind the last thread of such segments.
    const int block = static_cast<int>(std::bit_floor(*b & 31u)) * 2;
    if ((*b & 31 & ~inside) == 0 && (block == 0 || threads_ % block == 0)) return wanted;
  }
  if (mode == ShuffleMode::kIndex && to_the_end && full_segments) return wanted;
  if (!full_segments) last = Emit(IrOp::kMinS, {last, Const(static_cast<uint32_t>(threads_ - 1))});
  if (whole && mode == ShuffleMode::kDown && b) {
    const uint32_t bound = std::min<uint32_t>(*c & 31, static_cast<uint32_t>(threads_ - 1));
    wanted.valid = Test(Compare::kLtS, Lane(), Const(bound + 1 - (*b & 31)));
  } else {
    wanted.valid = Test(Compare::kLeS, wanted.lane, last);
  }
  return wanted;
}

absl::Status WarpExpander::ExpandShuffle(const IrInstruction& in) {
  const auto b = ConstantOf(in.args[1]), c = ConstantOf(in.args[2]);
  const auto mode = static_cast<ShuffleMode>(in.immediate);
  const bool nowhere = c && (~*c >> 8 & 31) == 0 && mode != ShuffleMode::kXor;  // segments of one lane
  if (threads_ == 1 || nowhere || (b && (*b & 31) == 0 && mode != ShuffleMode::kIndex)) {
    Replace(in.args[0]);
    return absl::OkStatus();
  }
  if (StaysInWarp(in)) {
    BringTogether();
    Replace(InPass(in, mode, c));
    return absl::OkStatus();
  }
  return InMemory(in);
}

int WarpExpander::InPass(const IrInstruction& in, ShuffleMode mode, std::optional<uint32_t> c) {
  const uint32_t inside = c ? ~(*c >> 8) & 31 : 0;
  const bool to_the_end = c && (*c & inside) == inside, from_the_start = c && (*c & inside) == 0;
  const bool usual = mode == ShuffleMode::kUp ? from_the_start : to_the_end;
  const auto b = ConstantOf(in.args[1]);
  if (usual && mode == ShuffleMode::kXor && b && (*b & 31) <= inside && (*b & 31) < kLanes) {
    return LaneShuffle(mode, in.args[0], Const(*b & 31), false);
  }
  // The machine's own segments: of 4, of 2, and longer ones that hold the whole thread block.
  const bool whole_block = OneMachineWarp() && inside >= kLanes - 1 && std::has_single_bit(inside + 1);
  if (usual && mode != ShuffleMode::kXor && inside == 1) return LaneShuffle(mode, in.args[0], in.args[1], true);
  if (usual && (mode == ShuffleMode::kUp || mode == ShuffleMode::kDown) && (inside == 3 || whole_block)) {
    return LaneShuffle(mode, in.args[0], in.args[1], false);
  }
  if (usual && mode == ShuffleMode::kIndex && inside == 3) return LaneShuffle(mode, in.args[0], in.args[1], false);
  const Wanted wanted = WantedLane(in);
  int lane = wanted.lane;
  if (wanted.valid >= 0) lane = Emit(IrOp::kSelect, {wanted.valid, lane, Lane()});
  return LaneShuffle(ShuffleMode::kIndex, in.args[0], lane, false);
}

absl::Status WarpExpander::InMemory(const IrInstruction& in) {
  BringTogether();
  int live = -1;
  if (MayHaveExited()) {
    QGPU_ASSIGN_OR_RETURN(live, LiveThreads());
  }
  Exchange exchange;
  QGPU_ASSIGN_OR_RETURN(exchange.buffer, ValueWords(0));
  const int own = OwnPlace();
  Store(exchange, own, in.args[0]);
  Barrier();
  const Wanted wanted = WantedLane(in);
  int valid = wanted.valid;
  if (live >= 0) valid = Both(valid, IsLive(live, wanted.lane));
  int place = Emit(IrOp::kShl, {wanted.lane, Const(2)});
  if (valid >= 0) place = Emit(IrOp::kSelect, {valid, place, own});
  Replace(Load(exchange, place));
  exchanges_.push_back(exchange);
  return absl::OkStatus();
}

}  // namespace qgpu::lower
