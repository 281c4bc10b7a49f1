// Ballots: four bits inside a pass, one word for each machine warp.
#include "lowering/ptx_to_blocks/expand/warp_expander.h"
#include "lowering/ptx_to_blocks/pack/select.h"

namespace qgpu::lower {

absl::Status WarpExpander::ExpandBallot(const IrInstruction& in) {
  const bool of_block = in.op == IrOp::kBlockBallot;
  if (threads_ == 1) {
    Replace(Emit(IrOp::kSelect, {in.args[0], Const(1), Const(0)}));
    return absl::OkStatus();
  }
  // Who votes must be together; the barrier that bar.red is does that as well.
  const bool apart = uniformity_.block[Home()] != Spread::kUniform || uniformity_.skewed[Home()];
  if (of_block && (OneMachineWarp() || apart)) Barrier();
  const size_t exchanges = exchanges_.size();
  QGPU_ASSIGN_OR_RETURN(const int ballot, Ballot(in.args[0]));
  if (of_block && !OneMachineWarp() && !apart && exchanges_.size() == exchanges) Barrier();
  if (f_.IsConstant(in.args[0]) && f_.at(in.args[0]).immediate != 0) live_masks_[step_] = true;
  Replace(ballot);
  return absl::OkStatus();
}

absl::StatusOr<int> WarpExpander::Ballot(int predicate) {
  bool negate = false;
  const int base = StripNegations(f_, predicate, &negate);
  int opposite = -1;
  for (const Known& known : known_ballots_) {
    const std::optional<bool> inverted = IsSame(known.predicate, base);
    if (!inverted || !StillHolds(known)) continue;
    if ((known.negate != negate) == *inverted) return known.value;
    opposite = known.value;
  }
  if (opposite >= 0 && !MayHaveExited()) return Emit(IrOp::kXor, {opposite, Const(AllThreads())});
  QGPU_ASSIGN_OR_RETURN(const int value, NewBallot(predicate));
  known_ballots_.push_back({base, negate, Home(), value});
  return value;
}

std::optional<bool> WarpExpander::IsSame(int p, int q) const {
  if (p == q) return false;
  const IrInstruction &a = f_.at(p), &b = f_.at(q);
  if (a.op != IrOp::kCompare || b.op != IrOp::kCompare || a.args != b.args) return std::nullopt;
  if (a.compare == b.compare) return false;
  return a.compare == Inverted(b.compare) ? std::optional<bool>(true) : std::nullopt;
}

absl::StatusOr<int> WarpExpander::NewBallot(int predicate) {
  BringTogether();
  const int nibble = Emit(IrOp::kLaneBallot, {predicate});
  if (OneMachineWarp()) return nibble;
  const bool exits = MayHaveExited();
  Exchange exchange;
  QGPU_ASSIGN_OR_RETURN(exchange.buffer, BallotWords());
  const int place = Masked(Lane(), ~3u & 31);  // 4 bytes for 4 lanes
  const int store = Store(exchange, place, nibble);
  if (!exits) {  // the first lane of each machine warp is there
    f_.at(store).guard = Test(Compare::kEq, Masked(Lane(), 3), Const(0));
  }
  Barrier();
  int ballot = -1;
  for (int warp = Warps() - 1; warp >= 0; --warp) {
    const int word = Load(exchange, Const(static_cast<uint32_t>(4 * warp)));
    ballot = ballot < 0 ? word : Emit(IrOp::kMad, {ballot, Const(16), word});
  }
  if (NeedsZeroes()) {  // for when the whole machine warp is gone
    Barrier();
    Store(exchange, place, Const(0));
  }
  exchanges_.push_back(exchange);
  return ballot;
}

bool WarpExpander::NeedsZeroes() const {
  if (uniformity_.exits.empty()) return false;
  if (grid_.Count() > 1) return true;
  return std::any_of(first_home_.begin(), first_home_.end(),
                     [&](const auto& other) { return uniformity_.MayExitBetween(Home(), other.second); });
}

}  // namespace qgpu::lower
