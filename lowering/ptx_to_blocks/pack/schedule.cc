#include "lowering/ptx_to_blocks/pack/schedule.h"

#include <algorithm>

#include "common/prng.h"
#include "lowering/ptx_to_blocks/pack/packer.h"

namespace qgpu::lower {
namespace {

constexpr int kMostAttempts = 160, kFewestAttempts = 24;
constexpr int kProgramOrderAttempts = 6;
constexpr int kNodesForMostAttempts = 24;  // larger blocks get fewer: an attempt's time grows with their square
constexpr uint64_t kSeed = 20250707;

// An access's address as the sorted values that are added, and a constant.
struct Address {
  std::vector<std::pair<Source::Kind, uint32_t>> terms;
  uint32_t offset = 0;
};

Address AddressOf(const Node& node) {
  Address address;
  for (const Source& source : {node.a, node.b}) {
    if (source.kind == Source::Kind::kImmediate) address.offset += source.number;
    if (source.kind == Source::Kind::kSpecial || source.is_value()) {
      address.terms.push_back({source.kind, source.number});
    }
  }
  std::sort(address.terms.begin(), address.terms.end());
  return address;
}

bool MayOverlap(const Node& x, const Node& y) {
  if (x.constant_memory || y.constant_memory || x.scratch != y.scratch) return false;
  const Address a = AddressOf(x), b = AddressOf(y);
  return a.terms != b.terms || a.offset == b.offset;
}

class Scheduler {
 public:
  Scheduler(const IrFunction& function, const FlowGraph& flow, const Layout& layout, const Liveness& live,
            const PhiPlan& phis, const Selection& selection, const std::vector<int>& costs, PackingGoal goal)
      : f_(function),
        flow_(flow),
        layout_(layout),
        live_(live),
        phis_(phis),
        selection_(selection),
        costs_(costs),
        goal_(goal) {}

  SchedulePlan Run() {
    out_.basic_blocks.resize(f_.blocks.size());
    const int values = static_cast<int>(f_.instructions.size());
    out_.variables = phis_.variables + values;
    out_.in_register.assign(values, false);
    for (int value = 0; value < values; ++value) {
      out_.variable_of.push_back(phis_.variable[value] >= 0 ? phis_.variable[value] : phis_.variables + value);
    }
    for (int block : flow_.order) {
      for (int value = 0; value < values; ++value) {
        if (live_.in[block][value]) out_.in_register[value] = true;
      }
    }
    for (int block : layout_.order) PackBlock(block);
    return std::move(out_);
  }

 private:
  bool LiveAfter(int block, int value) const {
    return std::any_of(flow_.successors[block].begin(), flow_.successors[block].end(),
                       [&](int successor) { return live_.in[successor][value]; });
  }

  PackingProblem Describe(int block) {
    PackingProblem p;
    p.nodes = &selection_.nodes[block];
    const size_t count = p.nodes->size();
    for (size_t n = 0; n < count; ++n) {
      if ((*p.nodes)[n].value >= 0) p.node_of[(*p.nodes)[n].value] = static_cast<int>(n);
    }
    for (const auto& [variable, value] : phis_.moves[block]) {
      p.moves.push_back({variable, value, phis_.fused[value] == variable && f_.at(value).block == block});
    }
    OrderMemory(p);
    FindReaders(p);
    MeasureHeights(p);
    const Terminator& end = f_.blocks[block].end;
    p.has_condition = end.kind == TerminatorKind::kBranch;
    p.negate = end.negate;
    if (p.has_condition) p.condition = StripNegations(f_, end.condition, &p.negate);
    p.write_back_cost = [this](int value) { return costs_[value]; };
    p.move_cost = [this](int, int value) { return value < 0 ? 2 : costs_[value]; };
    p.move_source = [this](int value) {
      const IrInstruction& in = f_.at(value);
      if (in.op == IrOp::kConst) return Source::Immediate(static_cast<uint32_t>(in.immediate));
      return in.op == IrOp::kSpecial ? Source::Special(static_cast<int>(in.immediate)) : Source::Value(value);
    };
    p.live_after = [this, block](int value) { return LiveAfter(block, value); };
    p.in_register = [this](int value) { return out_.in_register[value] || f_.at(value).op == IrOp::kPhi; };
    LookAbove(block, p);
    return p;
  }

  void LookAbove(int block, PackingProblem& p) {
    if (flow_.predecessors[block].size() != 1) return;
    const int from = flow_.predecessors[block][0];
    const BasicBlockPlan& plan = out_.basic_blocks[from];
    if (from == block || plan.blocks.empty()) return;
    p.above = &plan.blocks.back();
    p.may_write_above = [this, block, from](int variable) {
      if (phis_.moves[from].count(variable) != 0) return false;
      return std::all_of(flow_.successors[from].begin(), flow_.successors[from].end(), [&](int successor) {
        return successor == block || !phis_.LiveInto(successor, variable, f_, live_);
      });
    };
  }

  static void OrderMemory(PackingProblem& p) {
    const std::vector<Node>& nodes = *p.nodes;
    p.strictly_after.resize(nodes.size());
    p.not_before.resize(nodes.size());
    p.after_slot.resize(nodes.size());
    for (size_t late = 0; late < nodes.size(); ++late) {
      for (size_t early = 0; early < late; ++early) {
        const Node &a = nodes[early], &b = nodes[late];
        const bool both_access = (a.is_load || a.is_store) && (b.is_load || b.is_store);
        if (!both_access || (a.is_load && b.is_load) || !MayOverlap(a, b)) continue;
        auto& list = a.is_load ? p.not_before : b.is_load ? p.strictly_after : p.after_slot;
        list[late].push_back(static_cast<int>(early));
      }
    }
  }

  void FindReaders(PackingProblem& p) const {
    const std::vector<Node>& nodes = *p.nodes;
    p.readers.resize(p.moves.size());
    p.free_readers.resize(p.moves.size());
    for (size_t m = 0; m < p.moves.size(); ++m) {
      const int variable = p.moves[m].variable;
      // What the variable may hold on entry: phis of it, and values fused into it in earlier blocks.
      const auto holds = [&](int value) {
        return p.node_of.count(value) == 0 && (phis_.variable[value] == variable || phis_.fused[value] == variable);
      };
      std::vector<bool> depends(nodes.size(), false);  // on the value that is moved
      for (size_t n = 0; n < nodes.size(); ++n) {
        bool reads = false;
        ForEachRead(nodes[n], [&](int value) {
          reads = reads || holds(value);
          const auto from = p.node_of.find(value);
          if (from != p.node_of.end()) depends[n] = depends[n] || depends[from->second] || value == p.moves[m].value;
        });
        if (nodes[n].value >= 0 && nodes[n].value == p.moves[m].value) {
          depends[n] = true;
        }
        if (!reads) continue;
        p.readers[m].push_back(static_cast<int>(n));
        if (!depends[n]) p.free_readers[m].push_back(static_cast<int>(n));
      }
      for (size_t other = 0; other < p.moves.size(); ++other) {
        if (other != m && holds(p.moves[other].value)) p.readers[m].push_back(-1 - static_cast<int>(other));
      }
    }
  }

  static void MeasureHeights(PackingProblem& p) {
    const std::vector<Node>& nodes = *p.nodes;
    p.height.assign(nodes.size(), 0);
    for (int n = static_cast<int>(nodes.size()) - 1; n >= 0; --n) {
      const auto raise = [&](int other) { p.height[other] = std::max(p.height[other], p.height[n] + 1); };
      ForEachRead(nodes[n], [&](int value) {
        const auto from = p.node_of.find(value);
        if (from != p.node_of.end()) raise(from->second);
      });
      for (const auto* list : {&p.strictly_after[n], &p.not_before[n], &p.after_slot[n]}) {
        for (int other : *list) raise(other);
      }
    }
  }

  // Long chains first, more or less; or as the program has them, which needs the fewest registers.
  PackingStyle StyleOf(const PackingProblem& problem, int attempt, SplitMix64& random) const {
    PackingStyle style;
    if (goal_ == PackingGoal::kFewRegisters) {
      for (size_t n = 0; n < problem.nodes->size(); ++n) style.priority.push_back(-static_cast<int>(n));
      style.hold = attempt % 2 == 0;
      style.use_above = false;
      style.slot_order = attempt % 3;
      return style;
    }
    const int noise = attempt == 0 ? 1 : 1 << (1 + random.Below(6));
    for (int height : problem.height) style.priority.push_back(16 * height + static_cast<int>(random.Below(noise)));
    if (attempt > 0) {
      style.hold = random.Below(5) != 0;
      style.use_above = random.Below(5) != 0;
      style.slot_order = static_cast<int>(random.Below(3));
    }
    return style;
  }

  bool IsBetter(const Packing& a, const Packing& b) const {
    const auto blocks = [](const Packing& packing) { return packing.blocks.size() - packing.has_above; };
    if (goal_ == PackingGoal::kFewBlocks && blocks(a) != blocks(b)) return blocks(a) < blocks(b);
    return a.cost < b.cost;
  }

  void PackBlock(int block) {
    const PackingProblem problem = Describe(block);
    SplitMix64 random(kSeed + static_cast<uint64_t>(block));
    Packing best;
    const int nodes = std::max<int>(1, static_cast<int>(problem.nodes->size()));
    const int attempts = std::clamp(kMostAttempts * kNodesForMostAttempts / nodes, kFewestAttempts, kMostAttempts);
    for (int attempt = 0; attempt < (goal_ == PackingGoal::kFewRegisters ? kProgramOrderAttempts : attempts);
         ++attempt) {
      Packing packing = Pack(problem, StyleOf(problem, attempt, random));
      if (packing.complete && (!best.complete || IsBetter(packing, best))) best = std::move(packing);
    }
    Commit(block, best);
  }

  void Commit(int block, Packing& packing) {
    BasicBlockPlan& plan = out_.basic_blocks[block];
    if (packing.has_above) {
      // What was written up there for this block must not be overwritten there for its sibling.
      for (const SlotPlan& slot : packing.blocks.front().slots) {
        if (slot.variable >= 0 && phis_.moves[block].count(slot.variable) != 0) {
          phis_.carried[block].insert(slot.variable);
        }
      }
      out_.basic_blocks[flow_.predecessors[block][0]].blocks.back() = packing.blocks.front();
      packing.blocks.erase(packing.blocks.begin());
    }
    plan.blocks = std::move(packing.blocks);
    plan.condition = packing.condition;
    plan.negate = packing.negate;
    for (int value : packing.read_from_register) out_.in_register[value] = true;
    for (const auto& [value, variable] : packing.fused) out_.variable_of[value] = variable;
    out_.complete = out_.complete && packing.complete;
    out_.cost += static_cast<int64_t>(packing.cost) << 3 * std::min(layout_.loop_depth[block], 6);
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  const Layout& layout_;
  const Liveness& live_;
  PhiPlan phis_;  // a copy: `carried` grows
  const Selection& selection_;
  const std::vector<int>& costs_;
  const PackingGoal goal_;
  SchedulePlan out_;
};

// Values that are the same in all lanes of a machine warp, as far as is known.
std::vector<bool> FindUniform(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts) {
  std::vector<bool> uniform(function.instructions.size(), true);
  if (facts.block.Count() == 1) return uniform;
  for (size_t v = 0; v < uniform.size(); ++v) {
    const IrInstruction& in = function.at(static_cast<int>(v));
    if (in.op == IrOp::kSpecial && static_cast<int>(in.immediate) >= kSpecialLaneId) uniform[v] = false;
  }
  for (bool changed = true, divergent = false; changed;) {
    changed = false;
    for (int block : flow.order) {
      for (int value : function.blocks[block].instructions) {
        if (!uniform[value]) continue;
        bool now = function.at(value).op != IrOp::kPhi || !divergent;
        if (function.at(value).op == IrOp::kLaneBallot) continue;
        now = now && !(function.blocks[block].serial && function.at(value).op == IrOp::kLoad);
        ForEachOperand(function.at(value), [&](int operand) { now = now && uniform[operand]; });
        if (!now) {
          uniform[value] = false;
          changed = true;
        }
      }
      const int condition = function.blocks[block].end.condition;
      if (condition >= 0 && !uniform[condition] && !divergent) divergent = changed = true;
    }
  }
  return uniform;
}

}  // namespace

std::vector<int> WriteBackCosts(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts) {
  const std::vector<bool> uniform = FindUniform(function, flow, facts);
  const std::vector<Range> ranges = AnalyzeRanges(function, flow, facts);
  const int lanes = static_cast<int>(std::min<uint64_t>(kLanes, facts.block.Count()));
  std::vector<int> costs;
  for (size_t v = 0; v < function.instructions.size(); ++v) {
    if (function.at(static_cast<int>(v)).type == Type::kPredicate) {
      costs.push_back(2);
      continue;
    }
    const int each = ranges[v].Within(-128, 127) ? 2 : 3;  // half tokens; unknown values are often small
    costs.push_back(each * (uniform[v] ? 1 : lanes));
  }
  return costs;
}

SchedulePlan Schedule(const IrFunction& function, const FlowGraph& flow, const Layout& layout, const Liveness& live,
                      const PhiPlan& phis, const Selection& selection, const std::vector<int>& write_back_costs,
                      PackingGoal goal) {
  return Scheduler(function, flow, layout, live, phis, selection, write_back_costs, goal).Run();
}

}  // namespace qgpu::lower
