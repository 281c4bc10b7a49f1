#include "lowering/ptx_to_blocks/pack/allocate.h"

#include <algorithm>
#include <set>

namespace qgpu::lower {
namespace {

class Allocator {
 public:
  Allocator(const IrFunction& function, SchedulePlan& plan, std::vector<FlatBlock>& blocks,
            const MachineGeometry& geometry)
      : f_(function), plan_(plan), blocks_(blocks), geometry_(geometry), is_predicate_(plan.variables, false) {
    for (size_t value = 0; value < plan_.variable_of.size(); ++value) {
      if (f_.at(static_cast<int>(value)).type == Type::kPredicate) is_predicate_[plan_.variable_of[value]] = true;
    }
  }

  absl::StatusOr<Allocation> Run() {
    do {
      AnalyzeLiveVariables();
    } while (DropDeadWrites());
    BuildGraph();
    out_.number.assign(plan_.variables, 0);
    QGPU_RETURN_IF_ERROR(Color(false, geometry_.registers - 1, "registers", &out_.registers_used));
    QGPU_RETURN_IF_ERROR(Color(true, geometry_.predicates - 1, "predicates", &out_.predicates_used));
    DropTrivialMoves();
    return std::move(out_);
  }

 private:
  template <typename Visit>
  void ForEachRead(const FlatBlock& block, Visit visit) const {
    const auto read = [&](const Place& place) {
      if (place.kind == Place::Kind::kRegister) visit(plan_.variable_of[place.number]);
    };
    for (const SlotPlan& slot : block.plan->slots) {
      if (!slot.used) continue;
      for (const Place& place : {slot.a, slot.b, slot.c, slot.guard}) read(place);
    }
    read(block.condition);
  }

  void AnalyzeLiveVariables() {
    live_in_.assign(blocks_.size(), std::vector<bool>(plan_.variables, false));
    live_out_ = live_in_;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = blocks_.size(); i-- > 0;) {
        std::vector<bool> now(plan_.variables, false);
        for (int successor : blocks_[i].successors) {
          for (int v = 0; v < plan_.variables; ++v) now[v] = now[v] || live_in_[successor][v];
        }
        live_out_[i] = now;
        for (const SlotPlan& slot : blocks_[i].plan->slots) {
          if (const int v = WrittenVariable(plan_, slot); v >= 0) now[v] = false;
        }
        ForEachRead(blocks_[i], [&](int v) { now[v] = true; });
        if (now != live_in_[i]) {
          live_in_[i] = std::move(now);
          changed = true;
        }
      }
    }
  }

  static bool IsMove(const SlotPlan& slot) { return slot.used && slot.value < 0 && slot.variable >= 0; }

  bool DropDeadWrites() {
    bool dropped = false;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      for (SlotPlan& slot : blocks_[i].plan->slots) {
        const int v = WrittenVariable(plan_, slot);
        if (v < 0 || live_out_[i][v]) continue;
        dropped = true;
        if (IsMove(slot)) {
          slot = {};
        } else {
          slot.value = slot.variable = -1;
        }
      }
    }
    return dropped;
  }

  void BuildGraph() {
    edges_.assign(plan_.variables, {});
    friends_.assign(plan_.variables, {});
    for (size_t i = 0; i < blocks_.size(); ++i) {
      std::vector<bool> after = live_out_[i];
      for (const SlotPlan& slot : blocks_[i].plan->slots) {
        const int v = WrittenVariable(plan_, slot);
        if (v < 0) continue;
        used_.insert(v);
        int same = -1;  // a move's source holds the same value afterwards
        if (IsMove(slot) && slot.a.kind == Place::Kind::kRegister) {
          same = plan_.variable_of[slot.a.number];
          friends_[v].push_back(same);
          friends_[same].push_back(v);
          if (Writes(*blocks_[i].plan, same)) same = -1;
        }
        for (int other = 0; other < plan_.variables; ++other) {
          if (!after[other] || other == v || other == same || is_predicate_[other] != is_predicate_[v]) continue;
          edges_[v].insert(other);
          edges_[other].insert(v);
        }
      }
      ForEachRead(blocks_[i], [&](int v) { used_.insert(v); });
    }
  }

  bool Writes(const BlockPlan& block, int variable) const {
    return std::any_of(block.slots.begin(), block.slots.end(),
                       [&](const SlotPlan& slot) { return WrittenVariable(plan_, slot) == variable; });
  }

  // Chaitin's order: what has few neighbours is coloured last.
  absl::Status Color(bool predicates, int usable, const char* what, int* used) {
    std::set<int> left;
    for (int v : used_) {
      if (is_predicate_[v] == predicates) left.insert(v);
    }
    std::vector<int> stack;
    while (!left.empty()) {
      const auto degree = [&](int v) {
        return std::count_if(edges_[v].begin(), edges_[v].end(), [&](int other) { return left.count(other) != 0; });
      };
      const int easiest =
          *std::min_element(left.begin(), left.end(), [&](int a, int b) { return degree(a) < degree(b); });
      stack.push_back(easiest);
      left.erase(easiest);
    }
    for (; !stack.empty(); stack.pop_back()) {
      const int v = stack.back();
      std::set<int> taken;
      for (int other : edges_[v]) taken.insert(out_.number[other]);
      int number = 1;
      while (taken.count(number) != 0) ++number;
      for (int other : friends_[v]) {
        if (out_.number[other] != 0 && taken.count(out_.number[other]) == 0) number = out_.number[other];
      }
      out_.number[v] = number;
      *used = std::max(*used, number);
    }
    if (*used > usable) {
      absl::Status status = absl::ResourceExhaustedError(fmt::format("needs {} {}, {} usable", *used, what, usable));
      status.SetPayload(predicates ? kPredicateShortage : kRegisterShortage,
                        absl::Cord(std::to_string(*used - usable)));
      return status;
    }
    return absl::OkStatus();
  }

  void DropTrivialMoves() {
    for (FlatBlock& block : blocks_) {
      for (SlotPlan& slot : block.plan->slots) {
        if (!IsMove(slot) || slot.a.kind != Place::Kind::kRegister) continue;
        if (out_.number[slot.variable] == out_.number[plan_.variable_of[slot.a.number]]) slot = {};
      }
    }
  }

  const IrFunction& f_;
  SchedulePlan& plan_;
  std::vector<FlatBlock>& blocks_;
  const MachineGeometry& geometry_;
  std::vector<bool> is_predicate_;  // [variable]
  std::vector<std::vector<bool>> live_in_, live_out_;
  std::vector<std::set<int>> edges_;
  std::vector<std::vector<int>> friends_;
  std::set<int> used_;
  Allocation out_;
};

}  // namespace

int WrittenVariable(const SchedulePlan& plan, const SlotPlan& slot) {
  if (!slot.used) return -1;
  if (slot.variable >= 0) return slot.variable;
  return slot.value >= 0 && plan.in_register[slot.value] ? plan.variable_of[slot.value] : -1;
}

absl::StatusOr<Allocation> AllocateRegisters(const IrFunction& function, SchedulePlan& plan,
                                             std::vector<FlatBlock>& blocks, const MachineGeometry& geometry) {
  return Allocator(function, plan, blocks, geometry).Run();
}

}  // namespace qgpu::lower
