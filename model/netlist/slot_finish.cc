// What a slot leaves behind: where it stores, its predicate, its trap, and whether its result is uniform.
#include "model/netlist/slot_builder.h"

namespace qgpu {

// (word address - lane) mod 128 of a lane that stores, 0 of the others.
void SlotBuilder::StoreBase(int q) {
  s_.stores[q] = net_.Bit(Name("stores", q));
  const Literals stores = {takes_part_[q], s_.op[1]};
  net_.And(plan_.last, stores, {{s_.stores[q]}});
  s_.store_base[q] = net_.Bits(Name("store_base", q), 7);
  const std::vector<Signal> address = Slice(value_[q], 2, 7);
  const auto flip = [&](int bit, const Literals& when) {
    net_.Flip(plan_.last, stores + when, address[bit], s_.store_base[q][bit]);
  };
  for (int bit = 0; bit < 7; ++bit) net_.And(plan_.last, stores + Literals{address[bit]}, {{s_.store_base[q][bit]}});
  const auto zeros = [&](int first, int last) {
    Literals literals;
    for (int i = first; i < last; ++i) literals.push_back(Not(address[i]));
    return literals;
  };
  if (q == 1) {
    for (int bit = 0; bit < 7; ++bit) flip(bit, zeros(0, bit));
  } else if (q == 2) {
    for (int bit = 1; bit < 7; ++bit) flip(bit, zeros(1, bit));
  } else if (q == 3) {
    // - 3 = + 1 - 4: the low two bits count up; unless they were 3, the rest counts down.
    flip(0, {});
    flip(1, {address[0]});
    for (int bit = 2; bit < 7; ++bit) {
      flip(bit, zeros(2, bit) + Literals{Not(address[0])});
      flip(bit, zeros(2, bit) + Literals{address[0], Not(address[1])});
    }
  }
}

void SlotBuilder::Predicate() {
  const int layer = plan_.base + 2;
  const auto& op = s_.op;
  for (int q = 0; q < kLaneCount; ++q) {
    const Output out = {s_.predicate[q] = net_.Bit(Name("predicate", q))};
    const Literals on = {m_.active[q], g_[q]};
    // Order: carry is A >= B; op bit 2 negates it, op bit 1 moves equality to the other side.
    net_.And(layer, Matches(op, "1110**") + on + Literals{carry_[q]}, {out});
    net_.And(layer, Matches(op, "1111**") + on + Literals{Not(carry_[q])}, {out});
    net_.And(layer, Matches(op, "11*11*") + on + Literals{equal_[q]}, {out});
    net_.And(layer, Matches(op, "11*01*") + on + Literals{equal_[q]}, {{out.signal, -1}});
    net_.And(layer, Matches(op, "110010") + on, {out});
    net_.And(layer, Matches(op, "110000") + on, {out});
    if (slot_ > 0) {
      const Signal before = m_.slots[slot_ - 1].predicate[q];
      net_.And(layer, Matches(op, "110001") + on + Literals{before}, {out});
      net_.And(layer, Matches(op, "11010*") + Literals{m_.active[q], g_[q], Not(before)}, {out});
      net_.And(layer, Matches(op, "11010*") + Literals{m_.active[q], Not(g_[q]), before}, {out});
      net_.And(layer, Matches(op, "110100") + on + Literals{before}, {out});
    } else {
      net_.And(layer, Matches(op, "11010*") + on, {out});
    }
    // add, sub: the result is not zero.
    Literals zero;
    for (Signal bit : value_[q]) zero.push_back(Not(bit));
    for (const char* arithmetic : {"001000", "010000"}) {
      net_.And(layer, Matches(op, arithmetic) + on, {out});
      net_.And(layer, Matches(op, arithmetic) + on + zero, {{out.signal, -1}});
    }
    if (slot_ == 1) net_.And(layer, {in_range_[q]}, {out});
    net_.And(layer, {Not(m_.active[q]), old_[q]}, {out});
  }
}

// The lowest lane that traps, unless an earlier slot did. Kinds: 1 out of range, 2 misaligned.
void SlotBuilder::Trap() {
  const int layer = plan_.base + 2;
  LaneBits far, crooked;
  for (int q = 0; q < kLaneCount; ++q) {
    const Word& address = value_[q];
    far[q] = net_.Bit(Name("out_of_range", q));
    crooked[q] = net_.Bit(Name("misaligned", q));
    net_.Restoring(layer, {takes_part_[q], address[0]}, {{crooked[q]}});
    net_.Restoring(layer, {takes_part_[q], Not(address[0]), address[1]}, {{crooked[q]}});
    const Literals aligned = {takes_part_[q], Not(address[0]), Not(address[1])};
    Literals no_high;
    for (int k = 9; k < 32; ++k) no_high.push_back(Not(address[k]));
    net_.Restoring(layer, aligned, {{far[q]}});
    net_.Restoring(layer, aligned + no_high, {{far[q], -1}});
    Literals last_two, word_zero;  // words 126 and 127, and word 0
    for (int k = 3; k < 9; ++k) last_two.push_back(address[k]);
    for (int k = 2; k < 9; ++k) word_zero.push_back(Not(address[k]));
    net_.Restoring(layer, aligned + no_high + last_two, {{far[q]}});
    net_.Restoring(layer, aligned + no_high + word_zero, {{far[q]}});
  }
  std::vector<Signal> kind, slot, lane;
  Signal any;
  if (slot_ == 0) {
    any = net_.Bit("trap");
    kind = net_.Bits("trap.kind", 2);
    slot.resize(2);
    lane = net_.Bits("trap.lane", 2);
  } else {
    any = net_.Update(m_.trap);
    kind = net_.Update(m_.trap_kind);
    slot = m_.trap_slot;
    for (int bit = 0; bit < 2; ++bit) {
      if (slot_ >> bit & 1) slot[bit] = slot[bit].id < 0 ? net_.Bit("trap.slot") : net_.Update(slot[bit]);
    }
    lane = net_.Update(m_.trap_lane);
  }
  for (int q = 0; q < kLaneCount; ++q) {
    Literals first;
    if (slot_ > 0) first.push_back(Not(m_.trap));
    for (int lower = 0; lower < q; ++lower) first.push_back(Not(Linear(far[lower]) + crooked[lower]));
    std::vector<Output> outputs = {{any}};
    for (int bit = 0; bit < 2; ++bit) {
      if (slot_ >> bit & 1) outputs.push_back({slot[bit]});
      if (q >> bit & 1) outputs.push_back({lane[bit]});
    }
    for (int which = 0; which < 2; ++which) {
      std::vector<Output> with_kind = outputs;
      with_kind.push_back({kind[which]});
      net_.Restoring(layer + 1, first + Literals{which == 0 ? far[q] : crooked[q]}, with_kind);
    }
  }
  m_.trap = any;
  m_.trap_kind = kind;
  m_.trap_slot = slot;
  m_.trap_lane = lane;
}

// Whether the result is the same in all active lanes, bit by bit; inactive lanes have 0. A count of 32 for a while.
void SlotBuilder::Uniform() {
  Signal agreeing = net_.Count(Name("agreeing_bits"), 32);
  for (int k = 0; k < 32; ++k) {
    Literals ones, zeros = {m_.started};
    for (int q = 0; q < kLaneCount; ++q) {
      ones.push_back(Linear(s_.result[q][k]) + Not(m_.active[q]));
      zeros.push_back(Not(s_.result[q][k]));
    }
    net_.Restoring(plan_.last + 1, ones, {{agreeing}});
    net_.Restoring(plan_.last + 1, zeros, {{agreeing}});
  }
  s_.uniform = Linear(agreeing) - 31.0;
  if (slot_ + 1 == kSlots) return;  // no layer is left for it
  const Signal uniform = net_.Bit(Name("uniform"));
  net_.Step(plan_.last + 2, {}, s_.uniform, {{uniform}});
  s_.uniform = uniform;
}

}  // namespace qgpu
