// What a slot computes: sums, products, logic, shifts, shuffles, and the choice among them.
#include "model/netlist/slot_builder.h"

namespace qgpu {

// A + B and A - B share the sum's place; comparisons and min/max look at the carry out of A - B.
void SlotBuilder::AddAndSubtract() {
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
void SlotBuilder::Logic() {
  for (int q = 0; q < kLaneCount; ++q) {
    for (int k = 0; k < 32; ++k) {
      const Signal a = a_[q][k], b = b_[q][k], out = adder_[q].sum[k];
      net_.And(plan_.base, {and_or_[q], a, b}, {{out}});
      net_.And(plan_.base, {or_xor_[q], a, Not(b)}, {{out}});
      net_.And(plan_.base, {or_xor_[q], Not(a), b}, {{out}});
    }
  }
}

void SlotBuilder::PartialProducts() {
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
void SlotBuilder::Columns() {
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
void SlotBuilder::Thresholds(int layer, const Linear& count, int largest, const std::vector<Signal>& bits,
                             const Literals& enable) {
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
void SlotBuilder::Shift() {
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

void SlotBuilder::BitOperations() {
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
void SlotBuilder::Shuffle() {
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

void SlotBuilder::ShuffleSources(int q, int width, const std::array<Signal, kLaneCount>& from) {
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

// Columns of up to six bits and the addend, three columns at a time, become two rows; then the adder's first layer.
void SlotBuilder::RowsToTwo() {
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

void SlotBuilder::FinishMultiply() {
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
void SlotBuilder::FinishGeneral() {
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

}  // namespace qgpu
