// One instruction slot for four lanes. Slots 0 and 2 multiply and take five layers, slots 1 and 3 shift, compare for
// minimum and maximum, permute bits and store, and take three:
//
//   layer     multiply slot                              general slot
//   rom       ROM row; op lines, older results           the same
//   base      operands A, B, guard; add/sub 1,           operands A, B, guard; add/sub 1, logic, shift by 8s,
//             partial products, logic                    shuffle sources
//   base + 1  adder 2, select; columns to bits           adder 2, shift by 0 to 7, bit operations, shuffle, ballot
//   base + 2  operand C; rows to two; predicate, trap    operand C, loaded word; store, load, min/max, select;
//   predicate,
//                                                        trap
//   base + 3  adder 1 of the two rows
//   base + 4  loaded word; adder 2
//
// A lane that is not active has result 0: every op line has the lane's `active` in it.
#include "model/netlist/adder.h"
#include "model/netlist/machine_builder.h"

namespace qgpu {
namespace {

// A pattern like "001***" over op bits 5..0.
Literals Matches(const std::vector<Signal>& op, const char* pattern) {
  Literals literals;
  for (int i = 0; i < 6; ++i) {
    if (pattern[i] == '1') literals.push_back(op[5 - i]);
    if (pattern[i] == '0') literals.push_back(Not(op[5 - i]));
  }
  return literals;
}

}  // namespace

// Local to one slot's construction.
class SlotBuilder {
 public:
  SlotBuilder(MachineBuilder& machine, int slot)
      : m_(machine), net_(machine.net), slot_(slot), plan_(machine.machine.slots[slot]), s_(machine.slots[slot]) {}

  void Build() {
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

 private:
  std::string Name(const std::string& what) const { return fmt::format("slot{}.{}", slot_, what); }
  std::string Name(const std::string& what, int lane) const {
    return fmt::format("slot{}.lane{}.{}", slot_, lane, what);
  }

  LaneBits Line(const std::string& name, const char* pattern) {
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

  void RomRow() {
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
  std::vector<Signal> RomData() const {
    std::vector<Signal> data = m_.data;
    if (plan_.rom > 1) return data;
    for (Signal& s : data) {
      if (net_.signals()[s.id].update_of >= 0) s.id = net_.signals()[s.id].update_of;
    }
    return data;
  }

  void OpLines() {
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
  void OlderSources() {
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
  int PortHead(const std::string& port, int lane, int layer, const std::vector<Signal>& code, const Literals& enable,
               const Word& target) {
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

  void OperandHeads() {
    for (int q = 0; q < kLaneCount; ++q) {
      const int head = PortHead("A", q, plan_.base, s_.a, {}, a_[q]);
      if (slot_ == 0) m_.machine.register_heads.push_back(head);
      PortHead("B", q, plan_.base, s_.b, {}, b_[q]);
    }
  }

  // Special words: the same in every lane in cells 0 to 31, thread indices of 6 bits a lane in cells 32 to 55.
  void SpecialHead() {
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
  void PredicateHeads() {
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

  void Guard() {
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

  // A + B and A - B share the sum's place; comparisons and min/max look at the carry out of A - B.
  void AddAndSubtract() {
    for (int q = 0; q < kLaneCount; ++q) {
      if (!plan_.multiplies) pool_[q] = net_.Bits(Name("shifted_or_flip", q), 40);
      adder_[q] = MakeAdderSignals(net_, Name("adder", q), /*compares=*/true, pool_[q]);
      AdderLayer1(net_, plan_.base, {add_[q]}, a_[q], b_[q], false, adder_[q]);
      AdderLayer1(net_, plan_.base, {sub_[q]}, a_[q], b_[q], true, adder_[q]);
      AdderTopGroup(net_, plan_.base, {sub_[q], Not(s_.op[0])}, a_[q], b_[q], false, adder_[q]);
      AdderTopGroup(net_, plan_.base, {sub_[q], s_.op[0]}, a_[q], b_[q], true, adder_[q]);

      value_[q] = net_.Update(adder_[q].sum);
      const size_t first_flip = net_.neurons().size();
      AdderLayer2(net_, plan_.base + 1, adder_[q], value_[q]);
      if (plan_.multiplies) net_.Tolerate(first_flip);  // the rows' thresholds come next
      carry_[q] = net_.Bit(Name("carry", q));
      for (const Literals& term : CarryTerms(adder_[q], kAdderGroups)) {
        net_.Restoring(plan_.base + 1, term, {{carry_[q]}});
      }
      equal_[q] = net_.Bit(Name("equal", q));
      Literals equal = {adder_[q].zero_group};
      for (int group = 1; group < kAdderGroups; ++group) equal.push_back(adder_[q].propagate[group]);
      net_.Restoring(plan_.base + 1, equal, {{equal_[q]}});
      // ld and st: taken part in; ld alone: to be read.
      takes_part_[q] = net_.Bit(Name("takes_part", q));
      for (const Signal is_memory : {s_.op[0], s_.op[1]}) {
        net_.Restoring(plan_.base + 1, {add_[q], is_memory, g_[q]}, {{takes_part_[q]}});
      }
      loads_[q] = net_.Bit(Name("loads", q));
      net_.Restoring(plan_.base + 1, {add_[q], s_.op[0], g_[q]}, {{loads_[q]}});
    }
  }

  // and = ab, or = ab + a!b + !ab, xor = a!b + !ab.
  void Logic() {
    for (int q = 0; q < kLaneCount; ++q) {
      for (int k = 0; k < 32; ++k) {
        const Signal a = a_[q][k], b = b_[q][k], out = adder_[q].sum[k];
        net_.And(plan_.base, {and_or_[q], a, b}, {{out}});
        net_.And(plan_.base, {or_xor_[q], a, Not(b)}, {{out}});
        net_.And(plan_.base, {or_xor_[q], Not(a), b}, {{out}});
      }
    }
  }

  void PartialProducts() {
    for (int q = 0; q < kLaneCount; ++q) {
      for (int k = 0; k < 32; ++k) {
        const Signal column = net_.Count(Name(fmt::format("column[{}]", k), q), k + 1);
        columns_[q].push_back(column);
        for (int i = 0; i <= k; ++i) {
          net_.And(plan_.base, {mad_[q], a_[q][i], b_[q][k - i]}, {{column}});
        }
        const size_t first_select = net_.neurons().size();
        net_.And(plan_.base + 1, {selp_[q], g_[q], a_[q][k]}, {{value_[q][k]}});
        net_.And(plan_.base + 1, {selp_[q], Not(g_[q]), b_[q][k]}, {{value_[q][k]}});
        net_.Tolerate(first_select);
      }
    }
  }

  // Each column's count becomes bits in its own and the next columns.
  void Columns() {
    for (int q = 0; q < kLaneCount; ++q) {
      rows_[q].resize(32);
      for (int k = 0; k < 32; ++k) {
        std::vector<Signal> bits;
        for (int r = 0; (k + 1) >> r != 0 && k + r < 32; ++r) {
          bits.push_back(net_.Bit(Name(fmt::format("row[{}][{}]", k + r, r), q)));
          rows_[q][k + r].push_back(bits.back());
        }
        Thresholds(plan_.base + 1, Linear(columns_[q][k]), k + 1, bits);
      }
    }
  }

  // bits = the binary digits of `count`, which is at most `largest`; digits beyond bits.size() are dropped. Entries
  // with id -1 are not wanted.
  void Thresholds(int layer, const Linear& count, int largest, const std::vector<Signal>& bits,
                  const Literals& enable = {}) {
    for (int t = 1; t <= largest; ++t) {
      std::vector<Output> outputs;
      for (size_t r = 0; r < bits.size(); ++r) {
        const int change = (t >> r & 1) - ((t - 1) >> r & 1);
        if (change != 0 && bits[r].id >= 0) outputs.push_back({bits[r], static_cast<double>(change)});
      }
      if (!outputs.empty()) net_.Step(layer, enable, count - Linear(t - 1), outputs);
    }
  }

  // Left and right shifts both end as a right shift by r = 0 to 8 of a 40-bit intermediate.
  void Shift() {
    for (int q = 0; q < kLaneCount; ++q) {
      const Word& a = a_[q];
      const Signal b3 = b_[q][3], b4 = b_[q][4];
      std::vector<Signal> r(9);
      for (int i = 0; i < 9; ++i) r[i] = net_.Bit(Name(fmt::format("shift_by[{}]", i), q));
      const Signal fill = net_.Bit(Name("shift_fill", q));
      Linear high;
      for (int k = 5; k < 32; ++k) high += b_[q][k];
      Literals small;  // amounts below 32
      for (int k = 5; k < 32; ++k) small.push_back(Not(b_[q][k]));
      const std::vector<Signal> low = Slice(b_[q], 0, 3);
      for (int amount = 0; amount < 8; ++amount) {
        const Literals here = Equals(low, amount) + small;
        net_.Restoring(plan_.base, Literals{shr_[q]} + here, {{r[amount]}});
        net_.Restoring(plan_.base, Literals{shl_[q]} + here, {{r[8 - amount]}});
      }
      net_.Step(plan_.base, {sar_[q], a[31]}, high, {{fill}});
      for (int eights = 0; eights < 4; ++eights) {
        const Literals by = Equals({b3, b4}, eights);
        for (int j = 0; j < 40; ++j) {
          const int right = j + 8 * eights, left = j - 8 * eights - 8;
          if (right < 32) net_.And(plan_.base, Literals{shr_[q], a[right]} + by, {{pool_[q][j]}});
          if (left >= 0) net_.And(plan_.base, Literals{shl_[q], a[left]} + by, {{pool_[q][j]}});
        }
      }
      // The sign comes in where j + 8 * eights > 31.
      for (int j = 8; j < 40; ++j) {
        const Literals sign = {sar_[q], a[31]};
        if (j >= 32) net_.And(plan_.base, sign, {{pool_[q][j]}});
        if (j < 16) net_.And(plan_.base, sign + Literals{b3, b4}, {{pool_[q][j]}});
        if (j >= 16 && j < 32) net_.And(plan_.base, sign + Literals{b4}, {{pool_[q][j]}});
        if (j >= 24 && j < 32) net_.And(plan_.base, sign + Literals{Not(b4), b3}, {{pool_[q][j]}});
      }
      std::vector<Output> all;
      for (int k = 0; k < 32; ++k) {
        all.push_back({value_[q][k]});
        for (int amount = 0; amount <= 8 && k + amount < 40; ++amount) {
          net_.And(plan_.base + 1, {r[amount], pool_[q][k + amount]}, {{value_[q][k]}});
        }
      }
      net_.And(plan_.base + 1, {fill}, all);
    }
  }

  void BitOperations() {
    const int layer = plan_.base + 1;
    for (int q = 0; q < kLaneCount; ++q) {
      const Word& a = a_[q];
      const auto op = [&](const char* pattern) { return Matches(s_.op, pattern) + Literals{m_.active[q]}; };
      Thresholds(layer, Sum(a), 32, Slice(value_[q], 0, 6), op("101000"));
      for (int zeros = 0; zeros <= 32; ++zeros) {
        Literals literals = op("101001");
        for (int k = 0; k < zeros; ++k) literals.push_back(Not(a[31 - k]));
        if (zeros < 32) literals.push_back(a[31 - zeros]);
        std::vector<Output> outputs;
        for (int bit = 0; bit < 6; ++bit) {
          if (zeros >> bit & 1) outputs.push_back({value_[q][bit]});
        }
        if (!outputs.empty()) net_.And(layer, literals, outputs);
      }
      for (int k = 0; k < 32; ++k) net_.And(layer, op("101010") + Literals{a[31 - k]}, {{value_[q][k]}});
      for (int other = 0; other < kLaneCount; ++other) {
        net_.And(layer, op("101011") + Literals{m_.active[other], g_[other]}, {{value_[q][other]}});
      }
    }
  }

  // from[q][m]: lane q takes lane m's A. Own A where the source is out of the segment or not active.
  void Shuffle() {
    for (int q = 0; q < kLaneCount; ++q) {
      in_range_[q] = net_.Bit(Name("shuffle_in_range", q));
      std::array<Signal, kLaneCount> from;
      for (int m = 0; m < kLaneCount; ++m) from[m] = net_.Bit(Name(fmt::format("from[{}]", m), q));
      net_.Restoring(plan_.base, Matches(s_.op, "1011**") + Literals{m_.active[q]}, {{from[q]}});
      for (const int width : {4, 2}) ShuffleSources(q, width, from);
      for (int m = 0; m < kLaneCount; ++m) {
        for (int k = 0; k < 32; ++k) net_.And(plan_.base + 1, {from[m], a_[m][k]}, {{value_[q][k]}});
      }
    }
  }

  void ShuffleSources(int q, int width, const std::array<Signal, kLaneCount>& from) {
    const char* patterns[4] = {"101100", "101101", "101110", "101111"};  // up, down, butterfly, index
    const int base = q & ~(width - 1), own = q - base;
    for (int mode = 0; mode < 4; ++mode) {
      const Literals here =
          Matches(s_.op, patterns[mode]) + Literals{m_.active[q], width == 4 ? Not(s_.c[0]) : Linear(s_.c[0])};
      for (int amount = 0; amount < width; ++amount) {
        const int source = mode == 0 ? own - amount : mode == 1 ? own + amount : mode == 2 ? own ^ amount : amount;
        if (source < 0 || source >= width) continue;
        // An index counts modulo the width; the others look at all five bits.
        const int bits = mode < 3 ? 5 : width == 4 ? 2 : 1;
        const Literals by = here + Equals(Slice(b_[q], 0, bits), amount);
        net_.And(plan_.base, by, {{in_range_[q]}});
        const int m = base + source;
        if (m != q) net_.Restoring(plan_.base, by + Literals{m_.active[m]}, {{from[m]}, {from[q], -1}});
      }
    }
  }

  // C goes into the sum's place of multiply slots (nothing else is there when C is used), and has its own in the
  // others, where it shares it with the loaded word.
  void OlderC() {
    for (int q = 0; q < kLaneCount; ++q) {
      if (!plan_.multiplies) c_[q] = net_.Bits(Name("c", q), 32);
      const Word& target = plan_.multiplies ? value_[q] : c_[q];
      const size_t first_neuron = net_.neurons().size();
      for (int back = 2; back <= slot_; ++back) {
        for (int k = 0; k < 32; ++k) {
          net_.And(
              plan_.base + 1,
              Equals(s_.c, kSourcePrevious + back - 1) + Literals{m_.active[q], m_.slots[slot_ - back].result[q][k]},
              {{target[k]}});
        }
      }
      if (plan_.multiplies) net_.Tolerate(first_neuron);
    }
  }

  void CHeads() {
    for (int q = 0; q < kLaneCount; ++q) {
      PortHead("C", q, plan_.base + 2, s_.c, {m_.active[q]}, plan_.multiplies ? value_[q] : c_[q]);
    }
  }

  void MemoryHeads() {
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

  // Columns of up to six bits and the addend, three columns at a time, become two rows; then the adder's first layer.
  void RowsToTwo() {
    for (int q = 0; q < kLaneCount; ++q) {
      Word x = net_.Bits(Name("x", q), 32), y = net_.Bits(Name("y", q), 32);
      for (int first = 0; first < 32; first += 3) {
        Linear sum;
        int largest = 0;
        std::vector<Signal> digits;
        for (int i = 0; i < 3 && first + i < 32; ++i) {
          const int column = first + i;
          for (Signal bit : rows_[q][column]) sum += static_cast<double>(1 << i) * Linear(bit);
          sum += static_cast<double>(1 << i) * Linear(value_[q][column]);
          largest += static_cast<int>(rows_[q][column].size() + 1) << i;
          digits.push_back(x[column]);
        }
        for (int i = 3; first + i < 32 && i < 6; ++i) digits.push_back(y[first + i]);
        Thresholds(plan_.base + 2, sum, largest, digits);
      }
      adder2_[q] = MakeAdderSignals(net_, Name("adder2", q), /*compares=*/false, {});
      AdderLayer1(net_, plan_.base + 3, {}, x, y, false, adder2_[q]);
    }
  }

  void FinishMultiply() {
    for (int q = 0; q < kLaneCount; ++q) {
      const Signal is_load = net_.Bit(Name("is_load", q));
      net_.Restoring(plan_.base + 1, {add_[q], s_.op[0]}, {{is_load}});
      s_.result[q] = net_.Update(adder2_[q].sum);
      AdderLayer2(net_, plan_.last, adder2_[q], s_.result[q]);
      for (int k = 0; k < 32; ++k) {
        net_.And(plan_.last, {is_load, adder2_[q].sum[k]}, {{s_.result[q][k], -1}});
        net_.And(plan_.last, {loaded_[q][k]}, {{s_.result[q][k]}});
      }
    }
  }

  // ld, st, min/max and selp replace what the adder left.
  void FinishGeneral() {
    for (int q = 0; q < kLaneCount; ++q) {
      const int layer = plan_.base + 1;
      const Signal drop = net_.Bit(Name("drop_sum", q)), take_a = net_.Bit(Name("take_a", q)),
                   take_b = net_.Bit(Name("take_b", q)), take_c = net_.Bit(Name("take_c", q));
      for (const Signal is_memory : {s_.op[0], s_.op[1]}) {
        net_.Restoring(layer, {add_[q], is_memory}, {{drop}, {take_c}});
      }
      net_.Restoring(layer, {minmax_[q]}, {{drop}});
      // max: A where the carry of A - B says A >= B, else B; min the other way round. Op bit 1 is max.
      for (const Literals& term : CarryTerms(adder_[q], kAdderGroups)) {
        const Literals carries = Literals{minmax_[q]} + term;
        net_.And(layer, carries + Literals{s_.op[1]}, {{take_a}, {take_b, -1}});
        net_.And(layer, carries + Literals{Not(s_.op[1])}, {{take_a, -1}, {take_b}});
      }
      net_.And(layer, {minmax_[q], Not(s_.op[1])}, {{take_a}});
      net_.And(layer, {minmax_[q], s_.op[1]}, {{take_b}});
      net_.Restoring(layer, {selp_[q], g_[q]}, {{take_a}});
      net_.Restoring(layer, {selp_[q], Not(g_[q])}, {{take_b}});
      s_.result[q] = net_.Update(value_[q]);
      for (int k = 0; k < 32; ++k) {
        const Signal result = s_.result[q][k];
        net_.And(plan_.last, {drop, value_[q][k]}, {{result, -1}});
        net_.And(plan_.last, {take_a, a_[q][k]}, {{result}});
        net_.And(plan_.last, {take_b, b_[q][k]}, {{result}});
        net_.And(plan_.last, {take_c, c_[q][k]}, {{result}});
      }
      StoreBase(q);
    }
  }

  // (word address - lane) mod 128 of a lane that stores, 0 of the others.
  void StoreBase(int q) {
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

  void Predicate() {
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
  void Trap() {
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
  void Uniform() {
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

  MachineBuilder& m_;
  Netlist& net_;
  const int slot_;
  const SlotPlan plan_;
  SlotSignals& s_;

  LaneWords a_, b_, c_;  // operands; c_ also the loaded word of general slots
  LaneWords value_;      // what adder, logic, shifter and bit operations leave (and C, in multiply slots)
  LaneWords columns_, loaded_;
  std::array<std::vector<std::vector<Signal>>, kLaneCount> rows_;  // [lane][column]
  std::array<std::vector<Signal>, kLaneCount> pool_;
  std::array<AdderSignals, kLaneCount> adder_, adder2_;
  LaneBits add_, sub_, or_xor_, and_or_, selp_, mad_, minmax_, shl_, shr_, sar_;
  LaneBits file_guard_, old_, g_, carry_, equal_, takes_part_, loads_, in_range_;
};

void MachineBuilder::Slot(int slot) { SlotBuilder(*this, slot).Build(); }

}  // namespace qgpu
