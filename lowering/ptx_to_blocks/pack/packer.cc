#include "lowering/ptx_to_blocks/pack/packer.h"

#include <algorithm>
#include <optional>

namespace qgpu::lower {
namespace {

constexpr int kPassCost = 2;  // in half tokens, as write-backs
constexpr int kSlotOrders = 3;
constexpr int kOrders[kSlotOrders][kSlots] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}};

bool CanRun(const Node& node, int slot) {
  return SlotCanExecute(slot, node.op) || (node.shift_as_multiply && SlotCanExecute(slot, Op::kMad));
}

class Packer {
 public:
  Packer(const PackingProblem& problem, const PackingStyle& style)
      : p_(problem), style_(style), nodes_(*problem.nodes), at_(nodes_.size()), wanted_(nodes_.size(), true) {
    for (size_t n = 0; n < nodes_.size(); ++n)
      wanted_[n] = nodes_[n].implied_by < 0 || IsWantedOutside(nodes_[n].value);
    move_done_.assign(p_.moves.size(), false);
    move_explicit_.assign(p_.moves.size(), false);
    for (size_t m = 0; m < p_.moves.size(); ++m) move_explicit_[m] = !p_.moves[m].may_fuse;
  }

  Packing Run() {
    if (p_.above != nullptr && style_.use_above) {
      out_.has_above = true;
      out_.blocks.push_back(*p_.above);
      for (int slot = 0; slot < kSlots; ++slot) {
        if (p_.above->slots[slot].value >= 0) place_[p_.above->slots[slot].value] = {0, slot};
      }
      FillBlock();
      CloseBlock();
    }
    const size_t limit = 2 * (nodes_.size() + p_.moves.size()) + 4;  // far more than any attempt that gets on needs
    while (!AllDone()) {
      if (out_.blocks.size() > limit) return out_;
      out_.blocks.emplace_back();
      if (!FillBlock()) {
        forced_ = true;  // a ring of values that wait for each other: one of them goes first
        const bool progress = FillBlock();
        forced_ = false;
        if (!progress) return out_;
        FillBlock();
      }
      CloseBlock();
      if (!overwritten_unread_) continue;
      return out_;
    }
    if (!PlaceCondition()) return out_;
    out_.complete = true;
    out_.cost = Cost();
    return out_;
  }

 private:
  struct At {
    int block = -1, slot = -1;
  };

  int current() const { return static_cast<int>(out_.blocks.size()) - 1; }
  bool InAbove() const { return out_.has_above && current() == 0; }
  int OwnBlocks() const { return static_cast<int>(out_.blocks.size()) - out_.has_above; }

  bool IsWantedOutside(int value) const {
    if (p_.live_after(value)) return true;
    return std::any_of(p_.moves.begin(), p_.moves.end(), [&](const Move& move) { return move.value == value; });
  }

  bool AllDone() const {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (wanted_[n] && at_[n].block < 0) return false;
    }
    return std::find(move_done_.begin(), move_done_.end(), false) == move_done_.end();
  }

  // ---- filling the current machine block ----

  bool FillBlock() {
    std::vector<int> order;
    for (size_t n = 0; n < nodes_.size(); ++n) order.push_back(static_cast<int>(n));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return style_.priority[a] > style_.priority[b]; });
    bool any = false;
    for (bool progress = true; progress;) {
      progress = false;
      for (int n : order) {
        if (!wanted_[n] || at_[n].block >= 0 || !PlaceNode(n)) continue;
        progress = any = true;
        if (forced_) return true;
        break;
      }
      if (progress) continue;
      for (size_t m = 0; m < p_.moves.size() && !progress; ++m) {
        if (!move_done_[m] && move_explicit_[m] && PlaceMove(static_cast<int>(m))) progress = any = true;
      }
      if (forced_) return any;
    }
    return any;
  }

  bool IsRead(int reader) const {  // a node, or a move as -1 - index
    return reader >= 0 ? at_[reader].block >= 0 || !wanted_[reader] : move_done_[-1 - reader];
  }
  bool AllRead(const std::vector<int>& readers) const {
    return std::all_of(readers.begin(), readers.end(), [&](int reader) { return IsRead(reader); });
  }

  // Whether the rules of order let node n be in the current machine block, whatever its slot.
  bool MayGoHere(int n) const {
    const Node& node = nodes_[n];
    if (InAbove() && (node.is_load || node.is_store || node.is_convergent)) return false;
    for (int other : p_.strictly_after[n]) {
      if (at_[other].block < 0 || at_[other].block == current()) return false;
    }
    for (int other : p_.not_before[n]) {
      if (at_[other].block < 0) return false;
    }
    for (int other : p_.after_slot[n]) {
      if (at_[other].block < 0) return false;
    }
    for (size_t m = 0; m < p_.moves.size(); ++m) {
      if (p_.moves[m].value != node.value || !p_.moves[m].may_fuse) continue;
      if (InAbove() && !p_.may_write_above(p_.moves[m].variable)) return false;
      if (style_.hold && !forced_ && !AllRead(p_.free_readers[m])) return false;
    }
    return true;
  }

  bool PlaceNode(int n) {
    if (!MayGoHere(n)) return false;
    std::optional<BlockPlan> best;
    int best_slot = -1, best_used = kSlots + 1;
    std::set<int> best_reads;
    for (int slot : kOrders[style_.slot_order]) {
      if (out_.blocks.back().slots[slot].used || !CanRun(nodes_[n], slot) || !AfterItsSlots(n, slot)) continue;
      BlockPlan trial = out_.blocks.back();
      reads_.clear();
      if (!FillSlot(nodes_[n], slot, trial)) continue;
      const int used = static_cast<int>(
          std::count_if(trial.slots.begin(), trial.slots.end(), [](const SlotPlan& s) { return s.used; }));
      if (used < best_used) {
        best = trial;
        best_slot = slot;
        best_used = used;
        best_reads = reads_;
      }
    }
    if (!best) return false;
    out_.blocks.back() = *best;
    out_.read_from_register.insert(best_reads.begin(), best_reads.end());
    at_[n] = {current(), best_slot};
    if (nodes_[n].value >= 0) place_[nodes_[n].value] = at_[n];
    return true;
  }

  bool AfterItsSlots(int n, int slot) const {
    return std::all_of(p_.after_slot[n].begin(), p_.after_slot[n].end(),
                       [&](int other) { return at_[other].block < current() || at_[other].slot < slot; });
  }

  bool FillSlot(const Node& node, int slot, BlockPlan& block) {
    SlotPlan& out = block.slots[slot];
    out.used = true;
    out.op = node.op;
    out.value = node.value;
    out.origin = node.origin;
    out.pairs = node.pairs;
    Source b = node.b;
    if (node.shift_as_multiply && !SlotCanExecute(slot, Op::kShl)) {
      out.op = Op::kMad;
      b = Source::Immediate(1u << b.number);
    }
    if (!FindPredicate(node.guard, node.negate, slot, out.guard, out.negate)) return false;
    if (node.previous >= 0 && !FindPrevious(node, slot, block)) return false;
    return FindSource(node.a, slot, false, block, out.a) && FindSource(b, slot, true, block, out.b) &&
           FindSource(node.c, slot, false, block, out.c);
  }

  bool FindSource(const Source& source, int slot, bool is_b, BlockPlan& block, Place& place) {
    switch (source.kind) {
      case Source::Kind::kNone:
        place = {};
        return true;
      case Source::Kind::kValue:
        return FindValue(source.value(), slot, place);
      default:
        break;
    }
    if (is_b) {
      place = {source.kind == Source::Kind::kImmediate ? Place::Kind::kImmediate : Place::Kind::kSpecial,
               source.number};
      return true;
    }
    int free = -1;
    for (int s = 0; s < slot; ++s) {
      if (block.slots[s].used && block.slots[s].helper == source) {
        place = {Place::Kind::kSlot, static_cast<uint32_t>(s)};
        return true;
      }
      if (!block.slots[s].used) free = s;
    }
    if (free < 0) return false;
    SlotPlan& helper = block.slots[free];
    helper = {};
    helper.used = true;
    helper.op = Op::kAdd;
    helper.helper = source;
    helper.origin = block.slots[slot].origin;
    place = {Place::Kind::kSlot, static_cast<uint32_t>(free)};
    return FindSource(source, free, true, block, helper.b);
  }

  bool FindValue(int value, int slot, Place& place) {
    const auto found = place_.find(value);
    if (found == place_.end()) {
      if (p_.node_of.count(value) != 0) return false;  // not computed yet
    } else if (found->second.block == current()) {
      place = {Place::Kind::kSlot, static_cast<uint32_t>(found->second.slot)};
      return found->second.slot < slot;
    }
    place = {Place::Kind::kRegister, static_cast<uint32_t>(value)};
    reads_.insert(value);
    return true;
  }

  bool FindPredicate(int value, bool wanted_negate, int slot, Place& place, bool& negate) {
    negate = wanted_negate;
    if (value < 0) return true;
    const auto node = p_.node_of.find(value);
    if (node != p_.node_of.end() && nodes_[node->second].implied_by >= 0) {
      const auto add = place_.find(nodes_[node->second].implied_by);
      if (add != place_.end() && add->second.block == current() && add->second.slot < slot) {
        place = {Place::Kind::kSlot, static_cast<uint32_t>(add->second.slot)};
        if (nodes_[node->second].op == Op::kSetEq) negate = !negate;
        return true;
      }
      wanted_[node->second] = true;
    }
    return FindValue(value, slot, place);
  }

  // The slot before must have the predicate node.previous.
  bool FindPrevious(const Node& node, int slot, BlockPlan& block) {
    if (slot == 0) return false;
    SlotPlan& before = block.slots[slot - 1];
    if (before.used) return !node.previous_negate && before.value == node.previous;
    before.used = true;
    before.op = Op::kPSet;
    before.origin = node.origin;
    return FindPredicate(node.previous, node.previous_negate, slot - 1, before.guard, before.negate);
  }

  bool PlaceMove(int m) {
    const Move& move = p_.moves[m];
    if (!forced_ && !AllRead(p_.readers[m])) return false;
    if (InAbove() && !p_.may_write_above(move.variable)) return false;
    for (int slot : kOrders[style_.slot_order]) {
      if (out_.blocks.back().slots[slot].used) continue;
      BlockPlan trial = out_.blocks.back();
      reads_.clear();
      SlotPlan& out = trial.slots[slot];
      out.used = true;
      out.op = Op::kAdd;
      out.variable = move.variable;
      const Source source = p_.move_source(move.value);
      if (!FindSource(source, slot, !source.is_value(), trial, source.is_value() ? out.a : out.b)) continue;
      out_.blocks.back() = trial;
      out_.read_from_register.insert(reads_.begin(), reads_.end());
      move_done_[m] = true;
      return true;
    }
    return false;
  }

  // Ends the machine block. Moves whose value it computes are made by that slot, when nothing later reads the old
  // content.
  void CloseBlock() {
    for (bool again = true; again;) {
      again = false;
      for (size_t m = 0; m < p_.moves.size(); ++m) {
        if (move_done_[m] || move_explicit_[m]) continue;
        const auto found = place_.find(p_.moves[m].value);
        if (found == place_.end() || found->second.block != current() || !AllRead(p_.readers[m])) continue;
        out_.blocks.back().slots[found->second.slot].variable = p_.moves[m].variable;
        out_.fused.push_back({p_.moves[m].value, p_.moves[m].variable});
        move_done_[m] = again = true;
      }
    }
    for (size_t m = 0; m < p_.moves.size(); ++m) {
      const auto found = place_.find(p_.moves[m].value);
      if (!move_done_[m] && found != place_.end() && found->second.block == current()) move_explicit_[m] = true;
      if (move_done_[m] && !AllRead(p_.readers[m])) overwritten_unread_ = true;  // a ring of more than four moves
    }
  }

  // ---- the branch ----

  bool PlaceCondition() {
    if (!p_.has_condition) return true;
    if (OwnBlocks() == 0) out_.blocks.emplace_back();
    reads_.clear();
    const std::vector<bool> wanted_before = wanted_;
    if (FindPredicate(p_.condition, p_.negate, kSlots, out_.condition, out_.negate)) {
      out_.read_from_register.insert(reads_.begin(), reads_.end());
      return true;
    }
    // Only the comparison itself is missing.
    const auto node = p_.node_of.find(p_.condition);
    if (node == p_.node_of.end()) return false;
    if (!PlaceNode(node->second)) {
      out_.blocks.emplace_back();
      if (!PlaceNode(node->second)) return false;
    }
    return FindPredicate(p_.condition, p_.negate, kSlots, out_.condition, out_.negate);
  }

  int Cost() const {
    int cost = kPassCost * OwnBlocks();
    std::set<int> computed;
    for (size_t block = 0; block < out_.blocks.size(); ++block) {
      for (int s = 0; s < kSlots; ++s) {
        const SlotPlan& slot = out_.blocks[block].slots[s];
        if (out_.has_above && block == 0 && p_.above->slots[s].used) continue;
        if (slot.value >= 0) computed.insert(slot.value);
        const bool needed =
            slot.value >= 0 && (out_.read_from_register.count(slot.value) != 0 || p_.live_after(slot.value));
        if (slot.variable >= 0) {
          cost += p_.move_cost(slot.variable, slot.value);
        } else if (needed) {
          cost += p_.write_back_cost(slot.value);
        }
      }
    }
    for (int value : out_.read_from_register) {
      if (computed.count(value) == 0 && !p_.in_register(value)) cost += p_.write_back_cost(value);
    }
    return cost;
  }

  const PackingProblem& p_;
  const PackingStyle& style_;
  const std::vector<Node>& nodes_;
  Packing out_;
  std::vector<At> at_;        // [node]
  std::vector<bool> wanted_;  // [node] must be placed
  std::map<int, At> place_;   // [value] that a slot of these machine blocks computes
  std::vector<bool> move_done_, move_explicit_;
  std::set<int> reads_;  // values that the slot being tried reads from registers
  bool forced_ = false;
  bool overwritten_unread_ = false;
};

}  // namespace

Packing Pack(const PackingProblem& problem, const PackingStyle& style) { return Packer(problem, style).Run(); }

}  // namespace qgpu::lower
