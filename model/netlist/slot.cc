// What a slot starts from: its instruction, its operands, its guard.
#include "model/netlist/slot_builder.h"

namespace qgpu {

void SlotBuilder::Build() {
  RomRow();
  OpLines();
  OlderSources();
  OperandHeads();
  SpecialHead();
  PredicateHeads();
  Guard();
  AddAndSubtract();
  Logic();
  if (plan_.multiplies) {
    PartialProducts();
    Columns();
  } else {
    Shift();
    BitOperations();
    if (slot_ == 1) Shuffle();
  }
  OlderC();
  CHeads();
  MemoryHeads();
  if (plan_.multiplies) {
    FinishMultiply();
  } else {
    FinishGeneral();
  }
  Predicate();
  Trap();
  Uniform();
}

LaneBits SlotBuilder::Line(const std::string& name, const char* pattern) {
  LaneBits line;
  for (int q = 0; q < kLaneCount; ++q) {
    line[q] = net_.Bit(Name(name, q));
    const std::vector<Literals> cases = plan_.rom == 1 ? m_.active_cases[q] : std::vector<Literals>{{m_.active[q]}};
    for (const Literals& active : cases) {
      net_.Restoring(plan_.rom, Matches(s_.op, pattern) + active, {{line[q]}});
    }
  }
  return line;
}

void SlotBuilder::RomRow() {
  s_.op = net_.Bits(Name("op"), 6);
  s_.dst = net_.Bits(Name("dst"), 4);
  s_.a = net_.Bits(Name("A"), 5);
  s_.b = net_.Bits(Name("B"), 6);
  s_.c = net_.Bits(Name("C"), 5);
  s_.guard = net_.Bits(Name("guard"), 5);
  s_.negate = net_.Bit(Name("negate"));
  for (int q = 0; q < kLaneCount; ++q) {
    a_[q] = net_.Bits(Name("a", q), 32);
    b_[q] = net_.Bits(Name("b", q), 32);
  }
  Head& rom = m_.NewHead(Name("rom"), plan_.rom);
  rom.keys = RowsOf(Forms(m_.f, 4, 5));
  rom.write = All(Literals{m_.Kind(TokenKind::kRow)} + Equals(Slice(m_.f, 9, 3), slot_));
  rom.queries = RowsOf(Forms(m_.block), {m_.Kind(TokenKind::kExec)});
  StoreBits(rom, 0, Forms(RomData()));
  int cell = 0;
  for (const auto* field : {&s_.op, &s_.dst, &s_.a, &s_.b, &s_.c, &s_.guard}) {
    for (Signal bit : *field) rom.taps.push_back({cell++, bit});
  }
  rom.taps.push_back({cell, s_.negate});
  for (int k = 0; k < 32; ++k) {
    for (int q = 0; q < kLaneCount; ++q) rom.taps.push_back({32 + k, b_[q][k]});
  }
}

// Layer 1 still sees the data as they were before MW's value joined them.
std::vector<Signal> SlotBuilder::RomData() const {
  std::vector<Signal> data = m_.data;
  if (plan_.rom > 1) return data;
  for (Signal& s : data) {
    if (net_.signals()[s.id].update_of >= 0) s.id = net_.signals()[s.id].update_of;
  }
  return data;
}

void SlotBuilder::OpLines() {
  add_ = Line("is_add", "001***");
  sub_ = Line("is_sub", "*1****");
  or_xor_ = Line("is_or_xor", "00011*");
  and_or_ = Line("is_and_or", "0001*0");
  selp_ = Line("is_selp", "100000");
  if (plan_.multiplies) {
    mad_ = Line("is_mad", "000010");
  } else {
    minmax_ = Line("is_minmax", "0101**");
    shl_ = Line("is_shl", "100100");
    shr_ = Line("is_shr", "10011*");
    sar_ = Line("is_sar", "100111");
    s_.is_store = net_.Bit(Name("is_store"));
    net_.Restoring(plan_.rom, Matches(s_.op, "001010"), {{s_.is_store}});
  }
  // What is written back: a predicate where op is 11xxxx and dst is not 0, else a register where dst is not 0.
  s_.writes_predicate = net_.Bit(Name("writes_predicate"));
  s_.writes_register = net_.Bit(Name("writes_register"));
  const Literals predicate_op = Matches(s_.op, "11****"), no_dst = Equals(s_.dst, 0);
  net_.And(plan_.rom, predicate_op, {{s_.writes_predicate}, {s_.writes_register, -1}});
  net_.And(plan_.rom, predicate_op + no_dst, {{s_.writes_predicate, -1}, {s_.writes_register}});
  net_.And(plan_.rom, {}, {{s_.writes_register}});
  net_.And(plan_.rom, no_dst, {{s_.writes_register, -1}});
}

// Results of two and three slots before, gated into A and B.
void SlotBuilder::OlderSources() {
  for (int back = 2; back <= slot_; ++back) {
    const int code = kSourcePrevious + back - 1;
    for (int q = 0; q < kLaneCount; ++q) {
      for (int k = 0; k < 32; ++k) {
        const Signal result = m_.slots[slot_ - back].result[q][k];
        net_.And(plan_.rom, Equals(s_.a, code) + Literals{result}, {{a_[q][k]}});
        net_.And(plan_.rom, Equals(s_.b, code) + Literals{result}, {{b_[q][k]}});
      }
    }
  }
}

// One port of one lane: rows (warp, register); row (warp, 0) takes the result of the slot before.
int SlotBuilder::PortHead(const std::string& port, int lane, int layer, const std::vector<Signal>& code,
                          const Literals& enable, const Word& target) {
  const int index = static_cast<int>(net_.heads().size());
  Head& head = m_.NewHead(Name("register." + port, lane), layer);
  std::vector<Linear> row = Forms(m_.write_row);
  for (Signal bit : m_.warp) row.push_back(bit);
  head.keys = RowsOf(row);
  head.write = m_.write_register[lane];
  std::vector<Linear> stored = Forms(m_.data, 0, 32);
  if (slot_ > 0) {
    head.write += m_.Kind(TokenKind::kExec);
    for (int k = 0; k < 32; ++k) stored[k] += m_.slots[slot_ - 1].result[lane][k];
  }
  for (int w = 0; w < kWarps; ++w) {
    for (int r = slot_ > 0 ? 0 : 1; r < 16; ++r) {
      const int source = r == 0 ? kSourcePrevious : r;
      head.queries.push_back({16 * w + r, All(Equals(m_.warp, w) + Equals(code, source) + enable)});
    }
  }
  StoreBits(head, 0, stored);
  PadCells(head, 32, 32, 1.0);
  for (int k = 0; k < 32; ++k) head.taps.push_back({k, target[k]});
  return index;
}

void SlotBuilder::OperandHeads() {
  for (int q = 0; q < kLaneCount; ++q) {
    const int head = PortHead("A", q, plan_.base, s_.a, {}, a_[q]);
    if (slot_ == 0) m_.machine.register_heads.push_back(head);
    PortHead("B", q, plan_.base, s_.b, {}, b_[q]);
  }
}

// Special words: the same in every lane in cells 0 to 31, thread indices of 6 bits a lane in cells 32 to 55.
void SlotBuilder::SpecialHead() {
  Head& head = m_.NewHead(Name("special"), plan_.base);
  const TokenKind cta[3] = {TokenKind::kCtaX, TokenKind::kCtaY, TokenKind::kCtaZ};
  head.write = m_.Kind(TokenKind::kSpecialRow);
  for (int axis = 0; axis < 3; ++axis) {
    head.keys.push_back({axis, m_.Kind(cta[axis])});
    head.write += m_.Kind(cta[axis]);
  }
  for (int k = 3; k < 64; ++k) {
    head.keys.push_back({k, All(Literals{m_.Kind(TokenKind::kSpecialRow)} + Equals(Slice(m_.f, 0, 6), k))});
  }
  StoreBits(head, 0, Forms(m_.data, 0, 56));
  PadCells(head, 56, 8, 1.0);
  for (int word = 0; word < kSpecialLaneId; ++word) {
    head.queries.push_back({word, All(Equals(s_.b, kSourceSpecial + word))});
  }
  const int row_of[4] = {kSpecialTidX, kSpecialTidY, kSpecialTidZ, kSpecialLaneId};
  for (int axis = 0; axis < 4; ++axis) {
    for (int w = 0; w < kWarps; ++w) {
      head.queries.push_back(
          {32 + 8 * axis + w, All(Equals(s_.b, kSourceSpecial + row_of[axis]) + Equals(m_.warp, w))});
    }
  }
  for (int q = 0; q < kLaneCount; ++q) {
    for (int k = 0; k < 32; ++k) head.taps.push_back({k, b_[q][k]});
    for (int k = 0; k < 6; ++k) head.taps.push_back({32 + 6 * q + k, b_[q][k]});
  }
}

// Predicates: rows (warp, predicate) of four lane bits, written whole by PRED. One head reads the guard, the other
// the old value of the destination, which inactive lanes keep.
void SlotBuilder::PredicateHeads() {
  for (int q = 0; q < kLaneCount; ++q) {
    file_guard_[q] = net_.Bit(Name("file_guard", q));
    old_[q] = net_.Bit(Name("old_predicate", q));
  }
  for (const bool is_guard : {true, false}) {
    Head& head = m_.NewHead(Name(is_guard ? "guard" : "old"), plan_.base);
    std::vector<Linear> row = Forms(m_.write_row);
    for (Signal bit : m_.warp) row.push_back(bit);
    head.keys = RowsOf(row);
    head.write = m_.write_predicate;
    StoreBits(head, 0, Forms(m_.f, 0, 4));
    PadCells(head, 4, 60, 1.0);
    for (int w = 0; w < kWarps; ++w) {
      for (int p = 1; p < 16; ++p) {
        const Literals which = is_guard ? Equals(s_.guard, p) : Equals(s_.dst, p) + Matches(s_.op, "11****");
        head.queries.push_back({16 * w + p, All(Equals(m_.warp, w) + which)});
      }
    }
    for (int q = 0; q < kLaneCount; ++q) head.taps.push_back({q, is_guard ? file_guard_[q] : old_[q]});
  }
}

void SlotBuilder::Guard() {
  const int layer = plan_.base;
  for (int q = 0; q < kLaneCount; ++q) {
    g_[q] = net_.Bit(Name("guard", q));
    net_.Restoring(layer, Equals(s_.guard, 0) + Literals{Not(s_.negate)}, {{g_[q]}});
    net_.Restoring(layer, {file_guard_[q], Not(s_.negate)}, {{g_[q]}});
    net_.Restoring(layer, {s_.negate, Not(s_.guard[4]), Not(file_guard_[q])}, {{g_[q]}});
    for (int earlier = 0; earlier < slot_; ++earlier) {
      const Literals here = Equals(s_.guard, kGuardSlot + earlier);
      const Signal predicate = m_.slots[earlier].predicate[q];
      net_.Restoring(layer, here + Literals{predicate, Not(s_.negate)}, {{g_[q]}});
      net_.Restoring(layer, here + Literals{Not(predicate), s_.negate}, {{g_[q]}});
    }
  }
}

// C goes into the sum's place of multiply slots (nothing else is there when C is used), and has its own in the
// others, where it shares it with the loaded word.
void SlotBuilder::OlderC() {
  for (int q = 0; q < kLaneCount; ++q) {
    if (!plan_.multiplies) c_[q] = net_.Bits(Name("c", q), 32);
    const Word& target = plan_.multiplies ? value_[q] : c_[q];
    const size_t first_neuron = net_.neurons().size();
    for (int back = 2; back <= slot_; ++back) {
      for (int k = 0; k < 32; ++k) {
        net_.And(plan_.base + 1,
                 Equals(s_.c, kSourcePrevious + back - 1) + Literals{m_.active[q], m_.slots[slot_ - back].result[q][k]},
                 {{target[k]}});
      }
    }
    if (plan_.multiplies) net_.Tolerate(first_neuron);
  }
}

void SlotBuilder::CHeads() {
  for (int q = 0; q < kLaneCount; ++q) {
    PortHead("C", q, plan_.base + 2, s_.c, {m_.active[q]}, plan_.multiplies ? value_[q] : c_[q]);
  }
}

void SlotBuilder::MemoryHeads() {
  if (plan_.multiplies) RowsToTwo();
  for (int q = 0; q < kLaneCount; ++q) {
    if (plan_.multiplies) loaded_[q] = net_.Bits(Name("loaded", q), 32);
    const Word& address = plan_.multiplies ? adder2_[q].sum : value_[q];
    const Word& target = plan_.multiplies ? loaded_[q] : c_[q];
    if (slot_ == 0 && q == 0) m_.machine.memory_head = static_cast<int>(net_.heads().size());
    Head& head = m_.NewHead(Name("memory", q), plan_.last);
    head.keys = RowsOf(Forms(m_.store_address));
    head.write = Linear(m_.write_memory) + m_.Kind(TokenKind::kMemWord);
    head.queries = RowsOf(Forms(address, 2, 7), {loads_[q]});
    StoreBits(head, 0, Forms(m_.data, 0, 32));
    PadCells(head, 32, 32, 1.0);
    for (int k = 0; k < 32; ++k) head.taps.push_back({k, target[k]});
  }
}

void MachineBuilder::Slot(int slot) { SlotBuilder(*this, slot).Build(); }

}  // namespace qgpu
