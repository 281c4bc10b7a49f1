#include "lowering/ptx_to_blocks/pack/phi_plan.h"

#include <algorithm>
#include <numeric>

namespace qgpu::lower {
namespace {

std::vector<int> PhisOf(const IrFunction& function, int block) {
  std::vector<int> phis;
  for (int value : function.blocks[block].instructions) {
    if (function.at(value).op != IrOp::kPhi) break;
    phis.push_back(value);
  }
  return phis;
}

int PhiSource(const IrInstruction& phi, int predecessor) {
  for (size_t i = 0; i < phi.args.size(); ++i) {
    if (phi.phi_blocks[i] == predecessor) return phi.args[i];
  }
  return -1;
}

// What a successor wants a variable to hold when it is entered.
struct Wish {
  enum Kind { kNothing, kKeep, kSource } kind = kNothing;
  int source = -1;
};

class Planner {
 public:
  Planner(const IrFunction& function, const FlowGraph& flow, const Liveness& live)
      : f_(function), flow_(flow), live_(live) {
    for (int block : flow_.order) {
      for (int phi : PhisOf(f_, block)) phis_.push_back(phi);
    }
    plan_.variable.assign(f_.instructions.size(), -1);
    plan_.fused.assign(f_.instructions.size(), -1);
    for (size_t i = 0; i < phis_.size(); ++i) plan_.variable[phis_[i]] = static_cast<int>(i);
    plan_.variables = static_cast<int>(phis_.size());
  }

  PhiPlan Run() {
    ShareVariables();
    plan_.moves.resize(f_.blocks.size());
    plan_.carried.resize(f_.blocks.size());
    for (int block : flow_.order) plan_.moves[block] = MovesOf(block);
    HoistIntoPredecessors();
    HoistToDefinitions();
    ChooseFused();
    return std::move(plan_);
  }

 private:
  Wish WishOf(int successor, int from, int variable) const {
    Wish wish;
    for (int phi : phis_) {
      if (plan_.variable[phi] != variable) continue;
      if (f_.at(phi).block == successor) {
        const int source = PhiSource(f_.at(phi), from);
        if (source >= 0 && plan_.variable[source] == variable) return {Wish::kKeep, -1};
        return {Wish::kSource, source};
      }
      if (live_.in[successor][phi]) wish.kind = Wish::kKeep;
    }
    return wish;
  }

  // Whether all successors of `block` can be given what they want of `variable` at once.
  bool Agree(int block, int variable) const {
    Wish all;
    for (int successor : flow_.successors[block]) {
      const Wish wish = WishOf(successor, block, variable);
      if (wish.kind == Wish::kNothing) continue;
      if (all.kind != Wish::kNothing && (all.kind != wish.kind || all.source != wish.source)) return false;
      all = wish;
    }
    return true;
  }

  bool Consistent(int variable) const {
    for (int a : phis_) {
      for (int b : phis_) {
        if (a == b || plan_.variable[a] != variable || plan_.variable[b] != variable) continue;
        if (f_.at(a).block == f_.at(b).block || live_.in[f_.at(b).block][a]) return false;
      }
    }
    return std::all_of(flow_.order.begin(), flow_.order.end(), [&](int block) { return Agree(block, variable); });
  }

  void TryShare(int a, int b) {
    const int keep = plan_.variable[a], drop = plan_.variable[b];
    if (keep == drop) return;
    const std::vector<int> before = plan_.variable;
    std::replace(plan_.variable.begin(), plan_.variable.end(), drop, keep);
    if (!Consistent(keep)) plan_.variable = before;
  }

  void ShareVariables() {
    for (int a : phis_) {
      for (int arg : f_.at(a).args) {
        if (f_.at(arg).op == IrOp::kPhi) TryShare(a, arg);
      }
    }
    for (int a : phis_) {
      for (int b : phis_) {
        for (int arg : f_.at(a).args) {
          const std::vector<int>& others = f_.at(b).args;
          if (a < b && !f_.IsPlaceless(arg) && std::find(others.begin(), others.end(), arg) != others.end()) {
            TryShare(a, b);
          }
        }
      }
    }
  }

  std::map<int, int> MovesOf(int block) const {
    std::map<int, int> moves;
    for (int successor : flow_.successors[block]) {
      for (int phi : PhisOf(f_, successor)) {
        const int variable = plan_.variable[phi], source = PhiSource(f_.at(phi), block);
        if (plan_.variable[source] != variable) moves[variable] = source;
      }
    }
    return moves;
  }

  // True when `block` may write `source` into `variable` by its end although only `onward` wants it.
  bool MayWrite(int block, int variable, int source, int onward) const {
    const auto present = plan_.moves[block].find(variable);
    if (present != plan_.moves[block].end()) return present->second == source;
    for (int successor : flow_.successors[block]) {
      if (successor != onward && plan_.LiveInto(successor, variable, f_, live_)) return false;
    }
    return true;
  }

  // A move can be made in the only predecessor: where that makes the same move anyway, and where the block has nothing
  // but moves and need not exist without them.
  void HoistIntoPredecessors() {
    for (auto it = flow_.order.rbegin(); it != flow_.order.rend(); ++it) {
      const int block = *it;
      if (flow_.predecessors[block].size() != 1) continue;
      const bool only_moves =
          f_.blocks[block].instructions.empty() && f_.blocks[block].end.kind == TerminatorKind::kJump;
      const int from = flow_.predecessors[block][0];
      const std::map<int, int> moves = plan_.moves[block];
      for (const auto& [variable, source] : moves) {
        if (!only_moves && plan_.moves[from].count(variable) == 0) continue;
        if (!MayWrite(from, variable, source, block) || plan_.LiveInto(block, variable, f_, live_)) continue;
        plan_.moves[from][variable] = source;
        plan_.moves[block].erase(variable);
        plan_.carried[block].insert(variable);
      }
    }
  }

  // A value computed in an earlier block goes into its variable there, when the variable is free all the way.
  void HoistToDefinitions() {
    for (int block : flow_.order) {
      const std::map<int, int> moves = plan_.moves[block];
      for (const auto& [variable, source] : moves) {
        const int home = f_.at(source).block;
        if (home < 0 || home == block || f_.at(source).op == IrOp::kPhi) continue;
        if (plan_.moves[home].count(variable) != 0) continue;
        const std::vector<bool> between = BlocksBetween(home, block);
        if (!Free(home, block, between, variable)) continue;
        plan_.moves[block].erase(variable);
        plan_.moves[home][variable] = source;
        for (int at : flow_.order) {
          if (between[at]) plan_.carried[at].insert(variable);
        }
      }
    }
  }

  // The blocks on the ways from `home`, which dominates `block`, to `block`, without the first and with the last.
  std::vector<bool> BlocksBetween(int home, int block) const {
    std::vector<bool> seen(f_.blocks.size(), false);
    std::vector<int> work = {block};
    seen[block] = true;
    while (!work.empty()) {
      const int at = work.back();
      work.pop_back();
      for (int predecessor : flow_.predecessors[at]) {
        if (predecessor == home || seen[predecessor]) continue;
        seen[predecessor] = true;
        work.push_back(predecessor);
      }
    }
    return seen;
  }

  bool Free(int home, int block, const std::vector<bool>& between, int variable) const {
    for (int at : flow_.order) {
      if (!between[at]) continue;
      if (plan_.LiveInto(at, variable, f_, live_)) return false;
      if (at != block && plan_.moves[at].count(variable) != 0) return false;
    }
    return std::none_of(flow_.successors[home].begin(), flow_.successors[home].end(),
                        [&](int successor) { return plan_.LiveInto(successor, variable, f_, live_); });
  }

  bool LiveAfter(int block, int value) const {
    return std::any_of(flow_.successors[block].begin(), flow_.successors[block].end(),
                       [&](int successor) { return live_.in[successor][value]; });
  }

  bool MayFuse(int value, int variable) const {
    const int home = f_.at(value).block;
    for (int phi : phis_) {
      if (plan_.variable[phi] == variable && live_.in[f_.at(phi).block][value]) return false;
    }
    for (int block : flow_.order) {
      const auto move = plan_.moves[block].find(variable);
      if (move != plan_.moves[block].end() && move->second != value && LiveAfter(block, value)) return false;
    }
    for (size_t other = 0; other < plan_.fused.size(); ++other) {
      if (plan_.fused[other] == variable && LiveAfter(home, static_cast<int>(other))) return false;
    }
    return true;
  }

  void ChooseFused() {
    for (int block : flow_.order) {
      for (const auto& [variable, source] : plan_.moves[block]) {
        const IrInstruction& in = f_.at(source);
        if (in.block != block || in.op == IrOp::kPhi || plan_.fused[source] >= 0) continue;
        if (MayFuse(source, variable)) plan_.fused[source] = variable;
      }
    }
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  const Liveness& live_;
  std::vector<int> phis_;
  PhiPlan plan_;
};

}  // namespace

bool PhiPlan::LiveInto(int block, int v, const IrFunction& function, const Liveness& live) const {
  if (carried[block].count(v) != 0) return true;
  for (size_t value = 0; value < variable.size(); ++value) {
    if (variable[value] == v && (function.at(static_cast<int>(value)).block == block || live.in[block][value])) {
      return true;
    }
    if (fused[value] == v && live.in[block][value]) return true;
  }
  return false;
}

void SplitConflictingEdges(IrFunction& function, Selection& selection) {
  for (bool changed = true; changed;) {
    changed = false;
    const FlowGraph flow = AnalyzeFlow(function);
    const Liveness live = AnalyzeLiveness(function, flow, selection);
    for (int block : flow.order) {
      if (flow.successors[block].size() < 2 || changed) continue;
      for (int successor : flow.successors[block]) {
        const int other =
            flow.successors[block][0] == successor ? flow.successors[block][1] : flow.successors[block][0];
        const std::vector<int> phis = PhisOf(function, successor);
        const bool conflict = std::any_of(phis.begin(), phis.end(), [&](int phi) {
          return live.in[other][phi] && PhiSource(function.at(phi), block) != phi;
        });
        if (!conflict) continue;
        const int edge = static_cast<int>(function.blocks.size());
        function.blocks.emplace_back();
        selection.nodes.emplace_back();
        function.blocks[edge].end.kind = TerminatorKind::kJump;
        function.blocks[edge].end.target = successor;
        Terminator& end = function.blocks[block].end;
        (end.target == successor ? end.target : end.other) = edge;
        for (int phi : phis) {
          std::vector<int>& from = function.at(phi).phi_blocks;
          std::replace(from.begin(), from.end(), block, edge);
        }
        changed = true;
        break;
      }
    }
  }
}

PhiPlan PlanPhis(const IrFunction& function, const FlowGraph& flow, const Liveness& live) {
  return Planner(function, flow, live).Run();
}

}  // namespace qgpu::lower
