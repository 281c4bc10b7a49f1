// Matches: comparisons with each other lane, or a loop over the threads' words.
#include "lowering/ptx_to_blocks/expand/warp_expander.h"

namespace qgpu::lower {

int WarpExpander::EqualInLane(const std::vector<int>& values, int lane) {
  int equal = -1;
  for (int value : values) {
    equal = Both(equal, Test(Compare::kEq, LaneShuffle(ShuffleMode::kIndex, value, lane, false), value));
  }
  return equal;
}

absl::Status WarpExpander::MatchAnyInPass(const IrInstruction& in) {
  if (threads_ == 1) {
    Replace(Const(1));
    return absl::OkStatus();
  }
  BringTogether();
  int mask = -1;
  for (int lane = 0; lane < threads_; ++lane) {
    const int bit =
        Emit(IrOp::kSelect, {EqualInLane(Halves(in), Const(static_cast<uint32_t>(lane))), Const(1u << lane), Const(0)});
    mask = mask < 0 ? bit : Emit(IrOp::kOr, {mask, bit});
  }
  if (MayHaveExited()) mask = Emit(IrOp::kAnd, {mask, Emit(IrOp::kLaneBallot, {True()})});
  Replace(mask);
  return absl::OkStatus();
}

absl::Status WarpExpander::MatchAllInPass(const IrInstruction& in) {
  if (threads_ == 1) {
    Replace(Const(1));
    return absl::OkStatus();
  }
  BringTogether();
  QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
  const int equal = EqualInLane(Halves(in), LowestOf(live));
  const int differ = Emit(IrOp::kLaneBallot, {Emit(IrOp::kPredNot, Type::kPredicate, {equal})});
  Replace(Emit(IrOp::kSelect, {Test(Compare::kEq, differ, Const(0)), live, Const(0)}));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WarpExpander::Exchange>> WarpExpander::Publish(const std::vector<int>& values) {
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < values.size(); ++i) {
    Exchange exchange;
    QGPU_ASSIGN_OR_RETURN(exchange.buffer, ValueWords(static_cast<int>(i)));
    Store(exchange, OwnPlace(), values[i]);
    exchanges.push_back(exchange);
  }
  Barrier();
  return exchanges;
}

int WarpExpander::EqualInMemory(const std::vector<int>& values, std::vector<Exchange>& exchanges, int place) {
  int equal = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    equal = Both(equal, Test(Compare::kEq, Load(exchanges[i], place), values[i]));
  }
  return equal;
}

absl::Status WarpExpander::MatchAllInMemory(const IrInstruction& in) {
  BringTogether();
  QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
  QGPU_ASSIGN_OR_RETURN(std::vector<Exchange> exchanges, Publish(Halves(in)));
  const int place = Emit(IrOp::kShl, {LowestOf(live), Const(2)});
  const int equal = EqualInMemory(Halves(in), exchanges, place);
  QGPU_ASSIGN_OR_RETURN(const int differ, Ballot(Emit(IrOp::kPredNot, Type::kPredicate, {equal})));
  Replace(Emit(IrOp::kSelect, {Test(Compare::kEq, differ, Const(0)), live, Const(0)}));
  exchanges_.insert(exchanges_.end(), exchanges.begin(), exchanges.end());
  return absl::OkStatus();
}

absl::Status WarpExpander::MatchAnyInMemory(const IrInstruction& in) {
  BringTogether();
  QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
  QGPU_ASSIGN_OR_RETURN(std::vector<Exchange> exchanges, Publish(Halves(in)));
  const int before = f_.at(step_).block;
  const int loop = SplitBefore(f_, step_);
  const int place = Emit(IrOp::kPhi, {}), mask = Emit(IrOp::kPhi, {});
  const int equal = EqualInMemory(Halves(in), exchanges, place);
  const int bit = Emit(IrOp::kSelect, {equal, Const(1), Const(0)});
  const int next_mask = Emit(IrOp::kMad, {mask, Const(2), bit});
  const int next_place = Emit(IrOp::kAdd, {place, Const(~3u)});
  const int more = Test(Compare::kGeS, next_place, Const(0));
  const int after = SplitBefore(f_, step_);
  f_.at(place).args = {Const(static_cast<uint32_t>(4 * (threads_ - 1))), next_place};
  f_.at(mask).args = {Const(0), next_mask};
  f_.at(place).phi_blocks = f_.at(mask).phi_blocks = {before, loop};
  Terminator& end = f_.blocks[loop].end;
  end.kind = TerminatorKind::kBranch;
  end.condition = more;
  end.target = loop;
  end.other = after;
  end.origin = f_.at(step_).origin;
  Replace(f_.IsConstant(live) ? next_mask : Emit(IrOp::kAnd, {next_mask, live}));
  exchanges_.insert(exchanges_.end(), exchanges.begin(), exchanges.end());
  return absl::OkStatus();
}

}  // namespace qgpu::lower
