// The end of a block: branches, sizes of results, thread blocks and the grid.
#include "model/netlist/late_builder.h"

namespace qgpu {

void LateBuilder::Build() {
  ControlRow();
  LaunchCells();
  NextBlocks();
  Sizes();
  ThreadBlocks();
  LaneRecords();
  Readiness();
  Pending();
  PendingCells();
  Items();
  Schedule();
  Results();
  NextToken();
  net_.set_layers(e_ + 4);
}

void LateBuilder::ControlRow() {
  condition_ = net_.Bits("control.condition", 5);
  negate_ = net_.Bit("control.negate");
  control_kind_ = net_.Bits("control.kind", 2);
  target_ = net_.Bits("control.target", 5);
  fall_through_ = net_.Bits("control.fall_through", 5);
  yield_ = net_.Bit("control.yield");
  Head& head = m_.NewHead("control", e_ - 1);
  head.keys = RowsOf(Forms(m_.f, 4, 5));
  head.write = All({Kind(TokenKind::kRow), m_.f[11]});
  head.queries = RowsOf(Forms(m_.block), {m_.started});
  StoreBits(head, 0, Forms(m_.data, 0, 22));
  PadCells(head, 22, 42, 1.0);
  const auto tap = [&](int first, const std::vector<Signal>& targets) {
    for (size_t i = 0; i < targets.size(); ++i) head.taps.push_back({first + static_cast<int>(i), targets[i]});
  };
  tap(0, condition_);
  tap(5, {negate_});
  tap(6, control_kind_);
  tap(8, target_);
  tap(14, fall_through_);
  tap(21, {yield_});
}

void LateBuilder::LaunchCells() {
  Head& branch = m_.NewHead("branch", e_);
  std::vector<Linear> row = Forms(m_.write_row);
  for (Signal bit : m_.warp) row.push_back(bit);
  branch.keys = RowsOf(row);
  branch.write = m_.write_predicate;
  StoreBits(branch, 0, Forms(m_.f, 0, 4));
  PadCells(branch, 4, 60, 1.0);
  for (int w = 0; w < kWarps; ++w) {
    for (int p = 1; p < 16; ++p) {
      branch.queries.push_back({16 * w + p, All(Equals(m_.warp, w) + Equals(condition_, p))});
    }
  }
  for (int q = 0; q < kLaneCount; ++q) {
    file_condition_[q] = net_.Bit(fmt::format("lane{}.file_condition", q));
    branch.taps.push_back({q, file_condition_[q]});
  }

  // One row each for x, y, z, grid and phase, in cells of their own; a launch writes all five before it starts.
  m_.machine.launch_head = static_cast<int>(net_.heads().size());
  Head& head = m_.NewHead("launch", e_);
  const int widths[3] = {8, 8, 6};
  const TokenKind kinds[3] = {TokenKind::kCtaX, TokenKind::kCtaY, TokenKind::kCtaZ};
  int cell = 0;
  const auto store = [&](const Linear& when, const Linear& on, const Linear& off, Signal target) {
    head.on.push_back({cell, All({when, on})});
    head.off.push_back({cell, All({when, off})});
    head.taps.push_back({cell++, target});
  };
  for (int axis = 0; axis < 3; ++axis) {
    const Linear kind = Kind(kinds[axis]);
    head.keys.push_back({axis, kind});
    head.write += kind;
    cta_[axis] = net_.Bits(fmt::format("cta.{}", "xyz"[axis]), widths[axis]);
    for (int i = 0; i < widths[axis]; ++i) store(kind, m_.f[i], m_.g[i], cta_[axis][i]);
  }
  const Linear grid = Kind(TokenKind::kGrid), bar = Kind(TokenKind::kBar);
  for (int axis = 0; axis < 3; ++axis) {
    grid_[axis] = net_.Bits(fmt::format("grid.{}", "xyz"[axis]), widths[axis]);
    for (int i = 0; i < widths[axis]; ++i) {
      const Signal bit = m_.data[8 * axis + i];
      store(grid, bit, Not(bit), grid_[axis][i]);
    }
  }
  phase_ = net_.Bit("phase");
  store(bar, m_.f[0], m_.g[0], phase_);
  PadCells(head, cell, 64 - cell, bar);
  head.keys.push_back({3, grid});
  head.keys.push_back({4, bar});
  head.write += grid;
  head.write += bar;
  for (int r = 0; r < 5; ++r) head.queries.push_back({r, 1.0});
}

// The exclusive cases in which lane q takes its branch.
std::vector<Literals> LateBuilder::TakenCases(int q) const {
  std::vector<Literals> cases = {Equals(condition_, 0),
                                 {file_condition_[q], Not(negate_)},
                                 {negate_, Not(condition_[4]), Not(file_condition_[q])}};
  for (int slot = 0; slot < kSlots; ++slot) {
    const Literals here = Equals(condition_, kGuardSlot + slot);
    const Signal predicate = m_.slots[slot].predicate[q];
    cases.push_back(here + Literals{predicate, Not(negate_)});
    cases.push_back(here + Literals{Not(predicate), negate_});
  }
  return cases;
}

// New lane records: of the pass's lanes on EXEC, of the named warp on WARP.
void LateBuilder::NextBlocks() {
  const Linear is_warp = Kind(TokenKind::kWarp);
  for (int q = 0; q < kLaneCount; ++q) {
    Record& next = next_[q];
    next.exited = net_.Bit(fmt::format("lane{}.next_exited", q));
    next.phase = net_.Bit(fmt::format("lane{}.next_phase", q));
    next.block = net_.Bits(fmt::format("lane{}.next_block", q), 5);
    net_.Restoring(e_, {phase_}, {{next.phase}});
    for (int i = 0; i < 5; ++i) net_.And(e_, {fall_through_[i], Not(is_warp)}, {{next.block[i]}});
    for (const Literals& taken : TakenCases(q)) {
      const Literals here = taken + Literals{Not(is_warp)};
      for (int i = 0; i < 5; ++i) {
        net_.And(e_, here + Literals{target_[i], Not(fall_through_[i])}, {{next.block[i]}});
        net_.And(e_, here + Literals{Not(target_[i]), fall_through_[i]}, {{next.block[i], -1}});
      }
      net_.Restoring(e_, here + Literals{control_kind_[0]}, {{next.exited}});
      net_.Flip(e_, here + Literals{control_kind_[1]}, phase_, next.phase);
    }
    net_.Restoring(e_, {is_warp, m_.g[q]}, {{next.exited}});
    write_record_[q] = net_.Bit(fmt::format("lane{}.write_record", q));
    net_.Restoring(e_, {Kind(TokenKind::kExec), m_.active[q]}, {{write_record_[q]}});
    net_.Restoring(e_, {is_warp}, {{write_record_[q]}});
  }
  record_warp_ = net_.Bits("record.warp", 3);
  for (int i = 0; i < 3; ++i) {
    net_.Restoring(e_, {is_warp, m_.f[9 + i]}, {{record_warp_[i]}});
    net_.Restoring(e_, {Not(is_warp), m_.warp[i]}, {{record_warp_[i]}});
  }
  yields_ = net_.Bit("yields");
  net_.Restoring(e_, {yield_, m_.IsWork()}, {{yields_}});
}

// Results that fit 8 and 20 bits, sign-extended.
void LateBuilder::Sizes() {
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int q = 0; q < kLaneCount; ++q) {
      for (const int bits : {8, 20}) {
        const Signal fits = net_.Bit(fmt::format("slot{}.lane{}.fits{}", slot, q, bits));
        Literals ones, zeros;
        for (int k = bits - 1; k < 32; ++k) {
          ones.push_back(m_.slots[slot].result[q][k]);
          zeros.push_back(Not(m_.slots[slot].result[q][k]));
        }
        net_.Restoring(e_, ones, {{fits}});
        net_.Restoring(e_, zeros, {{fits}});
        (bits == 8 ? fits8_ : fits20_)[slot][q] = fits;
      }
    }
    if (m_.slots[slot].is_store.id < 0) continue;
    // Stores are coalesced when all seven bits of the base agree in all lanes that store.
    same_base_bits_[slot] = net_.Count(fmt::format("slot{}.same_base_bits", slot), 14);
    for (int bit = 0; bit < 7; ++bit) {
      Literals ones, zeros;
      for (int q = 0; q < kLaneCount; ++q) {
        const Signal base = m_.slots[slot].store_base[q][bit];
        ones.push_back(Linear(base) + Not(m_.slots[slot].stores[q]));
        zeros.push_back(Not(base));
      }
      net_.Restoring(e_, ones, {{same_base_bits_[slot]}});
      net_.Restoring(e_, zeros, {{same_base_bits_[slot]}});
    }
  }
}

// Whether the thread block is the last along an axis, and its successor's index.
void LateBuilder::ThreadBlocks() {
  for (int axis = 0; axis < 3; ++axis) {
    last_[axis] = net_.Bit(fmt::format("last.{}", "xyz"[axis]));
    Linear left;  // thread blocks left along the axis, never negative
    for (size_t i = 0; i < cta_[axis].size(); ++i) {
      left += static_cast<double>(1 << i) * (Linear(grid_[axis][i]) - cta_[axis][i]);
    }
    net_.And(e_, {1.0 - left}, {{last_[axis]}});
    successor_[axis] = net_.Update(cta_[axis]);
    for (size_t i = 0; i < cta_[axis].size(); ++i) {
      Literals ones;
      for (size_t lower = 0; lower < i; ++lower) ones.push_back(cta_[axis][lower]);
      net_.Flip(e_, ones, cta_[axis][i], successor_[axis][i]);
    }
  }
}

void MachineBuilder::Late() { LateBuilder(*this).Build(); }

}  // namespace qgpu
