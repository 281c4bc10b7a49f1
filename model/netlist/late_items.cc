// What a pass left to be written back, item by item.
#include "model/netlist/late_builder.h"

namespace qgpu {

// Items of this pass: what each slot will have written back.
void LateBuilder::Pending() {
  const int layer = e_ + 1;
  for (int slot = 0; slot < kSlots; ++slot) {
    const SlotSignals& s = m_.slots[slot];

    PendingItems& p = pending_;
    p.predicate[slot] = s.writes_predicate;
    p.uniform[slot] = net_.Bit(fmt::format("pass.slot{}.uniform", slot));
    net_.Step(layer, {s.writes_register}, s.uniform, {{p.uniform[slot]}});
    Literals all8, all20;
    for (int q = 0; q < kLaneCount; ++q) {
      p.value[slot][q] = net_.Bit(fmt::format("pass.slot{}.lane{}.value", slot, q));
      net_.Restoring(layer, {s.writes_register, m_.active[q]}, {{p.value[slot][q]}});
      net_.Step(layer, {s.writes_register, m_.active[q]}, s.uniform, {{p.value[slot][q], -1}});
      if (s.is_store.id >= 0) net_.Restoring(layer, {s.stores[q]}, {{p.value[slot][q]}});
      all8.push_back(fits8_[slot][q]);
      all20.push_back(fits20_[slot][q]);
    }
    p.is_store[slot] = s.is_store;
    if (s.is_store.id >= 0) {
      p.coalesced[slot] = net_.Bit(fmt::format("pass.slot{}.coalesced", slot));
      net_.Step(layer, {s.is_store}, Linear(same_base_bits_[slot]) - 6.0, {{p.coalesced[slot]}});
    }
    // Inactive lanes hold 0, which fits.
    p.uniform_fits8[slot] = net_.Bit(fmt::format("pass.slot{}.uniform_fits8", slot));
    p.uniform_fits20[slot] = net_.Bit(fmt::format("pass.slot{}.uniform_fits20", slot));
    net_.Restoring(layer, all8, {{p.uniform_fits8[slot]}});
    net_.Restoring(layer, all20, {{p.uniform_fits20[slot]}});
    p.fits8[slot] = fits8_[slot];
    p.fits20[slot] = fits20_[slot];
  }
  pending_.trap = m_.trap;
  pending_.trap_kind = m_.trap_kind;
  pending_.trap_slot = m_.trap_slot;
  pending_.trap_lane = m_.trap_lane;
  pending_.active = m_.active;
}

// Two heads keep the items until the next EXEC; `items_` are the same signals as read back.
void LateBuilder::PendingCells() {
  const auto latch = [&](const char* name) -> Head& {
    Head& head = m_.NewHead(name, e_ + 2);
    head.keys = {{0, 1.0}};
    head.queries = {{0, m_.IsWork()}};
    head.write = Kind(TokenKind::kExec);
    return head;
  };
  Head* head = &latch("pending");
  int cell = 0;
  const auto keep = [&](Signal stored) {
    StoreBits(*head, cell, {stored});
    const Signal read = net_.Bit("kept." + net_.name(stored.id));
    head->taps.push_back({cell++, read});
    return read;
  };
  for (int slot = 0; slot < kSlots; ++slot) {
    items_.predicate[slot] = keep(pending_.predicate[slot]);
    items_.uniform[slot] = keep(pending_.uniform[slot]);
    for (int q = 0; q < kLaneCount; ++q) items_.value[slot][q] = keep(pending_.value[slot][q]);
    if (pending_.is_store[slot].id >= 0) {
      items_.is_store[slot] = keep(pending_.is_store[slot]);
      items_.coalesced[slot] = keep(pending_.coalesced[slot]);
    }
    items_.uniform_fits8[slot] = keep(pending_.uniform_fits8[slot]);
    items_.uniform_fits20[slot] = keep(pending_.uniform_fits20[slot]);
  }
  items_.trap = keep(pending_.trap);
  for (int i = 0; i < 2; ++i) {
    items_.trap_kind.push_back(keep(pending_.trap_kind[i]));
    items_.trap_slot.push_back(keep(pending_.trap_slot[i]));
    items_.trap_lane.push_back(keep(pending_.trap_lane[i]));
  }
  for (int q = 0; q < kLaneCount; ++q) items_.active[q] = keep(pending_.active[q]);
  PadCells(*head, cell, 64 - cell, 1.0);
  head = &latch("sizes");
  cell = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int q = 0; q < kLaneCount; ++q) {
      items_.fits8[slot][q] = keep(pending_.fits8[slot][q]);
      items_.fits20[slot][q] = keep(pending_.fits20[slot][q]);
    }
  }
  PadCells(*head, cell, 64 - cell, 1.0);
}

std::vector<LateBuilder::Cursor> LateBuilder::Cursors() const {
  std::vector<Cursor> cursors = {{-1, {Not(m_.cursor_valid)}, false}};
  for (int position = 0; position < 16; ++position) {
    cursors.push_back({position,
                       Literals{m_.cursor_valid, Not(m_.cursor_uniform)} + Equals(m_.cursor_slot, position / 4) +
                           Equals(m_.cursor_lane, position % 4),
                       false});
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    cursors.push_back({4 * slot, Literals{m_.cursor_valid, m_.cursor_uniform} + Equals(m_.cursor_slot, slot), true});
  }
  return cursors;
}

// Sizes of the cursor's item: fits 8, fits 20.
std::pair<Signal, Signal> LateBuilder::CursorSize(const Cursor& cursor) const {
  const int slot = cursor.position / 4, lane = cursor.position % 4;
  if (cursor.uniform) return {items_.uniform_fits8[slot], items_.uniform_fits20[slot]};
  return {items_.fits8[slot][lane], items_.fits20[slot][lane]};
}

// Lane q is the lowest active one of the last pass.
Literals LateBuilder::LowestActive(int q) const {
  Literals literals = {items_.active[q]};
  for (int lower = 0; lower < q; ++lower) literals.push_back(Not(items_.active[lower]));
  return literals;
}

// Outputs that choose the payload of (slot, lane).
std::vector<Output> LateBuilder::PayloadOf(int slot, int lane) const {
  std::vector<Output> outputs = {{read_result_[slot][lane / 2]}};
  if (lane % 2 == 1) outputs.push_back({odd_lane_});
  return outputs;
}

void LateBuilder::Items() {
  for (Signal* s : {&do_val0_, &do_val0u_, &do_val1_, &do_val2_, &do_pred_, &do_mem_, &do_trap_, &odd_lane_}) {
    *s = net_.Bit("item");
  }
  next_slot_ = net_.Bits("item.slot", 2);
  next_lane_ = net_.Bits("item.lane", 2);
  for (auto& of_slot : read_result_) {
    for (Signal& s : of_slot) s = net_.Bit("item.read");
  }
  net_.Restoring(e_ + 2, {items_.trap}, {{do_trap_}});
  for (const Cursor& cursor : Cursors()) {
    if (cursor.position >= 0) Continue(cursor);
    for (int position = cursor.position + 1; position < 16; ++position) NextItem(cursor, position);
  }
}

// The cursor's value is not complete: its next chunk.
void LateBuilder::Continue(const Cursor& cursor) {
  const int slot = cursor.position / 4, lane = cursor.position % 4;
  const auto [fits8, fits20] = CursorSize(cursor);
  const Linear first = Kind(cursor.uniform ? TokenKind::kVal0U : TokenKind::kVal0);
  const auto chunk = [&](const Literals& lane_literals, int of_lane) {
    const Literals here = cursor.literals + lane_literals + Literals{Not(items_.trap)};
    std::vector<Output> outputs = PayloadOf(slot, of_lane);
    outputs.push_back({do_val1_});
    net_.Restoring(e_ + 2, here + Literals{first, Not(fits8)}, outputs);
    outputs.back() = {do_val2_};
    net_.Restoring(e_ + 2, here + Literals{Kind(TokenKind::kVal1), Not(fits20)}, outputs);
  };
  if (!cursor.uniform) return chunk({}, lane);
  for (int q = 0; q < kLaneCount; ++q) chunk(LowestActive(q), q);
}

Linear LateBuilder::AnyItem(int position) const {
  const int slot = position / 4, lane = position % 4;
  Linear any = items_.value[slot][lane];
  if (lane == 0) any += Linear(items_.predicate[slot]) + items_.uniform[slot];
  return any;
}

// The item at `position` comes next after the cursor, whose value is complete.
void LateBuilder::NextItem(const Cursor& cursor, int position) {
  const int slot = position / 4, lane = position % 4;
  Literals base = cursor.literals + Literals{Not(items_.trap)};
  for (int between = cursor.position + 1; between < position; ++between) base.push_back(Not(AnyItem(between)));
  const auto emit = [&](const Literals& literals, const std::vector<Output>& outputs) {
    if (cursor.position < 0) return net_.Restoring(e_ + 2, base + literals, outputs);
    const auto [fits8, fits20] = CursorSize(cursor);
    const Linear chunks_seen = Kind(TokenKind::kVal1) + 2.0 * (Kind(TokenKind::kVal2) + Kind(TokenKind::kPred) +
                                                               Kind(TokenKind::kMem) + Kind(TokenKind::kExec));
    net_.Step(e_ + 2, base + literals, chunks_seen + Linear(fits8) + fits20 - 1.0, outputs);
  };
  std::vector<Output> where;
  for (int bit = 0; bit < 2; ++bit) {
    if (slot >> bit & 1) where.push_back({next_slot_[bit]});
  }
  const auto with = [](std::vector<Output> outputs, const std::vector<Output>& more) {
    outputs.insert(outputs.end(), more.begin(), more.end());
    return outputs;
  };
  if (lane == 0) {
    emit({items_.predicate[slot]}, with(where, {{do_pred_}}));
    for (int q = 0; q < kLaneCount; ++q) {
      emit(Literals{items_.uniform[slot]} + LowestActive(q), with(with(where, PayloadOf(slot, q)), {{do_val0u_}}));
    }
  }
  for (int bit = 0; bit < 2; ++bit) {
    if (lane >> bit & 1) where.push_back({next_lane_[bit]});
  }
  const std::vector<Output> value = with(with(where, PayloadOf(slot, lane)), {{do_val0_}});
  const Literals pending = {items_.value[slot][lane]};
  if (items_.is_store[slot].id < 0) return emit(pending, value);
  // A store needs its address first: once if all lanes have the same base, else lane by lane.
  const Signal is_store = items_.is_store[slot];
  const Linear mem = Kind(TokenKind::kMem);
  emit(pending + Literals{Not(is_store)}, value);
  emit(pending + Literals{is_store, mem}, value);
  if (cursor.position / 4 == slot && cursor.position >= 0) {
    emit(pending + Literals{is_store, Not(mem), items_.coalesced[slot]}, value);
    emit(pending + Literals{is_store, Not(mem), Not(items_.coalesced[slot])}, with(where, {{do_mem_}}));
  } else {
    emit(pending + Literals{is_store, Not(mem)}, with(where, {{do_mem_}}));
  }
}

// Two lanes' results a head, addresses and predicates; written by EXEC, read for the chosen item.
void LateBuilder::Results() {
  const auto latch = [&](const std::string& name, const Linear& read) -> Head& {
    Head& head = m_.NewHead(name, e_ + 3);
    head.keys = {{0, 1.0}};
    head.queries = {{0, read}};
    head.write = Kind(TokenKind::kExec);
    return head;
  };
  even_ = net_.Bits("payload.even_lane", 32);
  odd_ = net_.Bits("payload.odd_lane", 32);
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int half = 0; half < 2; ++half) {
      Head& head = latch(fmt::format("slot{}.results{}", slot, half), read_result_[slot][half]);
      for (int side = 0; side < 2; ++side) {
        StoreBits(head, 32 * side, Forms(m_.slots[slot].result[2 * half + side]));
        for (int k = 0; k < 32; ++k) head.taps.push_back({32 * side + k, side == 0 ? even_[k] : odd_[k]});
      }
    }
  }
  Head& bases = latch("store_bases", do_mem_);
  int cell = 0;
  for (int slot = 1; slot < kSlots; slot += 2) {
    for (int q = 0; q < kLaneCount; ++q) {
      bases_[slot][q] = net_.Bits(fmt::format("kept.slot{}.lane{}.base", slot, q), 7);
      StoreBits(bases, cell, Forms(m_.slots[slot].store_base[q]));
      for (int bit = 0; bit < 7; ++bit) bases.taps.push_back({cell++, bases_[slot][q][bit]});
    }
  }
  PadCells(bases, cell, 64 - cell, 1.0);
  Head& predicates = latch("slot_predicates", do_pred_);
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int q = 0; q < kLaneCount; ++q) {
      predicates_[slot][q] = net_.Bit(fmt::format("kept.slot{}.lane{}.predicate", slot, q));
      StoreBits(predicates, 4 * slot + q, {m_.slots[slot].predicate[q]});
      predicates.taps.push_back({4 * slot + q, predicates_[slot][q]});
    }
  }
  PadCells(predicates, 16, 48, 1.0);
}

}  // namespace qgpu
