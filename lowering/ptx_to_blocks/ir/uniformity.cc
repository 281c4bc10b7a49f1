#include "lowering/ptx_to_blocks/ir/uniformity.h"

#include <algorithm>

namespace qgpu::lower {
namespace {

Spread Worse(Spread a, Spread b) { return std::max(a, b); }

class Analysis {
 public:
  Analysis(const IrFunction& function, const FlowGraph& flow, const Dim3& block)
      : f_(function), flow_(flow), shape_(block), layout_(LayOutBlocks(flow)) {}

  Uniformity Run() {
    const size_t blocks = f_.blocks.size();
    out_.value.assign(f_.instructions.size(), Spread::kUniform);
    out_.block.assign(blocks, Spread::kUniform);
    out_.skewed.assign(blocks, false);
    joins_.assign(blocks, Spread::kUniform);
    FindReach();
    FindCommon();
    FindPostDominators();
    FindRegions();
    FindLeavingBranches();
    while (SpreadValues() | SpreadFlow()) {
    }
    FindExits();
    FindSkew();
    return std::move(out_);
  }

 private:
  // ---- the graph of the blocks from which a common step can be reached ----

  void FindReach() {
    const size_t blocks = f_.blocks.size();
    out_.reaches.assign(blocks, std::vector<bool>(blocks, false));
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = flow_.order.rbegin(); it != flow_.order.rend(); ++it) {
        std::vector<bool> now = out_.reaches[*it];
        for (int successor : flow_.successors[*it]) {
          now[successor] = true;
          for (size_t to = 0; to < blocks; ++to) now[to] = now[to] || out_.reaches[successor][to];
        }
        if (now != out_.reaches[*it]) {
          out_.reaches[*it] = std::move(now);
          changed = true;
        }
      }
    }
  }

  bool IsCommonStep(int block) const {
    if (f_.blocks[block].end.kind == TerminatorKind::kBarrier) return true;
    const std::vector<int>& list = f_.blocks[block].instructions;
    return std::any_of(list.begin(), list.end(), [&](int value) { return IsConvergent(f_.at(value).op); });
  }

  void FindCommon() {
    std::vector<bool> step(f_.blocks.size(), false);
    for (int block : flow_.order) step[block] = IsCommonStep(block);
    out_.common = step;
    for (int block : flow_.order) {
      for (int to : flow_.order) {
        if (step[to] && out_.reaches[block][to]) out_.common[block] = true;
      }
    }
    next_.resize(f_.blocks.size());
    for (int block : flow_.order) {
      for (int successor : flow_.successors[block]) {
        if (out_.common[block] && out_.common[successor]) next_[block].push_back(successor);
      }
    }
  }

  // Blocks of which it counts as possible that nothing follows: where nothing does, where a loop without an end has its
  // exits, and all blocks of a loop that nobody leaves.
  void FindEnds() {
    ends_.assign(f_.blocks.size(), false);
    for (int block : flow_.order) ends_[block] = next_[block].empty();
    for (bool only_exits : {true, false}) {
      std::vector<bool> ended(f_.blocks.size(), false);
      for (int block : flow_.order) {
        ended[block] = ends_[block];
        for (int to : flow_.order) ended[block] = ended[block] || (ends_[to] && ReachesInCommon(block, to));
      }
      for (int block : flow_.order) {
        if (!ended[block] && (!only_exits || next_[block].size() < flow_.successors[block].size())) ends_[block] = true;
      }
    }
  }

  // Blocks that are not common lead to none that is, so the way is one of common blocks.
  bool ReachesInCommon(int from, int to) const { return out_.common[to] && out_.reaches[from][to]; }

  // after_[block]: the blocks that every way from it goes through, itself included; only over common ones.
  void FindPostDominators() {
    FindEnds();
    const size_t blocks = f_.blocks.size();
    after_.assign(blocks, std::vector<bool>(blocks, true));
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = flow_.order.rbegin(); it != flow_.order.rend(); ++it) {
        if (!out_.common[*it]) continue;
        std::vector<bool> now(blocks, !ends_[*it]);
        for (int successor : next_[*it]) {
          for (size_t b = 0; b < blocks; ++b) now[b] = now[b] && after_[successor][b];
        }
        now[*it] = true;
        if (now != after_[*it]) {
          after_[*it] = std::move(now);
          changed = true;
        }
      }
    }
  }

  // The first block that all ways from `block` meet in, or -1.
  int Meeting(int block) const {
    int meeting = -1;
    for (int candidate : flow_.order) {
      if (candidate == block || !out_.common[candidate] || !EveryWayMeets(block, candidate)) continue;
      if (meeting < 0 || after_[candidate][meeting]) meeting = candidate;
    }
    return meeting;
  }

  bool EveryWayMeets(int block, int candidate) const {
    return std::all_of(next_[block].begin(), next_[block].end(),
                       [&](int successor) { return after_[successor][candidate]; });
  }

  struct Region {
    int branch = -1, meeting = -1;
    std::vector<bool> blocks;  // on the ways between
  };

  void FindRegions() {
    for (int block : flow_.order) {
      if (f_.blocks[block].end.kind != TerminatorKind::kBranch || next_[block].size() < 2) continue;
      Region region;
      region.branch = block;
      region.meeting = Meeting(block);
      region.blocks.assign(f_.blocks.size(), false);
      std::vector<int> work = next_[block];
      while (!work.empty()) {
        const int at = work.back();
        work.pop_back();
        if (at == region.meeting || region.blocks[at]) continue;
        region.blocks[at] = true;
        work.insert(work.end(), next_[at].begin(), next_[at].end());
      }
      regions_.push_back(std::move(region));
    }
  }

  // Branches of which one way leads out of the common blocks and another one does not.
  void FindLeavingBranches() {
    for (int block : flow_.order) {
      if (out_.common[block] && !next_[block].empty() && next_[block].size() < flow_.successors[block].size()) {
        leaving_.push_back(block);
      }
    }
  }

  // At a branch that all threads take alike nobody is left behind.
  bool LeavesOthersBehind(int branch) const {
    return out_.value[f_.blocks[branch].end.condition] != Spread::kUniform || out_.block[branch] != Spread::kUniform;
  }

  void FindExits() {
    out_.exit_before.assign(f_.blocks.size(), false);
    for (int branch : leaving_) {
      if (!LeavesOthersBehind(branch)) continue;
      out_.exits.push_back(branch);
      for (int block : flow_.order) {
        if (out_.reaches[branch][block]) out_.exit_before[block] = true;
      }
    }
  }

  // ---- values ----

  // Whether a value is the thread's number, up to parts that are the same in a machine warp.
  bool IsLane(int value) const {
    const IrInstruction& in = f_.at(value);
    if (in.op != IrOp::kSpecial) return false;
    return in.immediate == kSpecialLaneId ||
           (in.immediate == kSpecialTidX && (shape_.x % kLanes == 0 || shape_.y * shape_.z == 1));
  }

  Spread OfSpecial(const IrInstruction& in) const {
    if (in.immediate < kSpecialLaneId || shape_.Count() == 1) return Spread::kUniform;
    if (in.immediate == kSpecialTidY && shape_.x % kLanes == 0) return Spread::kByWarp;
    if (in.immediate == kSpecialTidZ && shape_.x * shape_.y % kLanes == 0) return Spread::kByWarp;
    return Spread::kDivergent;
  }

  // Something that only the number of the machine warp decides.
  bool DropsLane(const IrInstruction& in) const {
    if (in.args.size() != 2 || !IsLane(in.args[0]) || !f_.IsConstant(in.args[1])) return false;
    const uint64_t number = f_.at(in.args[1]).immediate;
    switch (in.op) {
      case IrOp::kShr:
      case IrOp::kSar:
        return number >= 2;
      case IrOp::kAnd:
        return number % kLanes == 0;
      case IrOp::kDivU:
      case IrOp::kDivS:
        return number != 0 && number % kLanes == 0;
      case IrOp::kCompare:
        switch (in.compare) {
          case Compare::kLtS:
          case Compare::kLtU:
          case Compare::kGeS:
          case Compare::kGeU:
            return number % kLanes == 0;
          case Compare::kLeS:
          case Compare::kLeU:
          case Compare::kGtS:
          case Compare::kGtU:
            return number % kLanes == kLanes - 1;
          default:
            return false;
        }
      default:
        return false;
    }
  }

  bool AllStay() const {
    return std::none_of(leaving_.begin(), leaving_.end(), [&](int branch) { return LeavesOthersBehind(branch); });
  }

  // A shuffle from one existing thread for all.
  bool IsBroadcast(const IrInstruction& in) const {
    if (static_cast<ShuffleMode>(in.immediate) != ShuffleMode::kIndex || !AllStay()) return false;
    if (!f_.IsConstant(in.args[1]) || !f_.IsConstant(in.args[2])) return false;
    return (f_.at(in.args[2]).immediate & 0x1fff) == 0x1f && (f_.at(in.args[1]).immediate & 31) < shape_.Count();
  }

  // The same from a lane that every machine warp has.
  bool IsLaneBroadcast(const IrInstruction& in) const {
    if (in.immediate != static_cast<uint64_t>(ShuffleMode::kIndex) || !AllStay()) return false;
    const uint64_t in_last_warp = shape_.Count() % kLanes;
    return f_.IsConstant(in.args[1]) && (in_last_warp == 0 || f_.at(in.args[1]).immediate % kLanes < in_last_warp);
  }

  Spread Of(const IrInstruction& in) const {
    Spread spread = Spread::kUniform;
    ForEachOperand(in, [&](int operand) { spread = Worse(spread, out_.value[operand]); });
    switch (in.op) {
      case IrOp::kPhi:
        return Worse(spread, joins_[in.block]);
      case IrOp::kLoad:
        // Other threads may write between the loads of two machine warps; in a program without races only to volatile
        // memory.
        spread = Worse(spread, out_.block[in.block]);
        if (f_.blocks[in.block].serial) return Spread::kDivergent;  // each lane after what others have stored
        return in.is_volatile ? Worse(spread, Spread::kByWarp) : spread;
      case IrOp::kBallot:
      case IrOp::kBlockBallot:
      case IrOp::kActiveMask:
      case IrOp::kMatchAll:
        return out_.block[in.block];
      case IrOp::kLaneBallot:
        return Worse(Spread::kByWarp, out_.block[in.block]);
      case IrOp::kShuffle:
        return IsBroadcast(in) ? out_.block[in.block] : Spread::kDivergent;
      case IrOp::kLaneShuffle:
        return IsLaneBroadcast(in) ? Worse(Spread::kByWarp, out_.block[in.block]) : Spread::kDivergent;
      case IrOp::kMatchAny:
        return Spread::kDivergent;
      default:
        if (HasSideEffect(in)) return Spread::kDivergent;
        return spread == Spread::kDivergent && DropsLane(in) ? Spread::kByWarp : spread;
    }
  }

  // In a thread block of one machine warp there is nothing between its warp and the whole.
  Spread Rounded(Spread spread) const {
    return spread == Spread::kByWarp && shape_.Count() <= kLanes ? Spread::kUniform : spread;
  }

  bool SpreadValues() {
    bool changed = false;
    for (size_t v = 0; v < out_.value.size(); ++v) {
      const IrInstruction& in = f_.at(static_cast<int>(v));
      if (in.op == IrOp::kSpecial) out_.value[v] = Rounded(OfSpecial(in));
    }
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (shape_.Count() == 1) continue;
        const Spread now = Worse(out_.value[value], Rounded(Of(f_.at(value))));
        if (now == out_.value[value]) continue;
        out_.value[value] = now;
        changed = true;
      }
    }
    return changed;
  }

  bool SpreadFlow() {
    bool changed = false;
    const auto raise = [&](Spread& spread, Spread to) {
      if (to <= spread) return;
      spread = to;
      changed = true;
    };
    for (const Region& region : regions_) {
      const Spread spread = out_.value[f_.blocks[region.branch].end.condition];
      if (spread == Spread::kUniform) continue;
      for (int block : flow_.order) {
        if (!region.blocks[block]) continue;
        raise(out_.block[block], spread);
        raise(joins_[block], spread);
      }
      if (region.meeting >= 0) raise(joins_[region.meeting], spread);
    }
    return changed;
  }

  // ---- passes ----

  // Blocks that may turn out to need no machine block are passed by.
  int FirstReal(int block) const {
    for (size_t steps = 0; steps < f_.blocks.size(); ++steps) {
      const IrBlock& at = f_.blocks[block];
      const bool empty = std::all_of(at.instructions.begin(), at.instructions.end(),
                                     [&](int value) { return f_.at(value).op == IrOp::kPhi; });
      if (!empty || at.end.kind != TerminatorKind::kJump) break;
      block = at.end.target;
    }
    return block;
  }

  // Lanes that wait are brought together by the lowest number going first: the meeting must lie behind the ways to it.
  void FindSkew() {
    std::vector<int> place(f_.blocks.size(), 0);
    for (size_t i = 0; i < layout_.order.size(); ++i) place[layout_.order[i]] = static_cast<int>(i);
    std::vector<int> work;
    for (const Region& region : regions_) {
      if (out_.value[f_.blocks[region.branch].end.condition] != Spread::kDivergent || region.meeting < 0) continue;
      const int meeting = FirstReal(region.meeting);
      for (int block : flow_.order) {
        if (region.blocks[block] && place[block] > place[meeting]) work = Appended(std::move(work), {meeting});
      }
    }
    while (!work.empty()) {
      const int block = work.back();
      work.pop_back();
      if (out_.skewed[block]) continue;
      out_.skewed[block] = true;
      if (f_.blocks[block].end.kind == TerminatorKind::kBarrier) continue;
      work = Appended(std::move(work), flow_.successors[block]);
    }
  }

  static std::vector<int> Appended(std::vector<int> list, const std::vector<int>& more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  const Dim3 shape_;
  const Layout layout_;
  std::vector<std::vector<int>> next_;  // successors among the common blocks
  std::vector<bool> ends_;
  std::vector<int> leaving_;
  std::vector<std::vector<bool>> after_;  // post-dominators
  std::vector<Region> regions_;
  std::vector<Spread> joins_;  // [block]: of its phis
  Uniformity out_;
};

}  // namespace

bool Uniformity::MayExitBetween(int from, int to) const {
  return std::any_of(exits.begin(), exits.end(),
                     [&](int exit) { return (exit == from || reaches[from][exit]) && reaches[exit][to]; });
}

Uniformity AnalyzeUniformity(const IrFunction& function, const FlowGraph& flow, const Dim3& block) {
  return Analysis(function, flow, block).Run();
}

}  // namespace qgpu::lower
