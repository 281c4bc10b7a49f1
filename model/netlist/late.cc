// Layers 17 to 21: from the results of a pass, or from what other tokens say, to the next token.
//
//   17 (e - 1)  control row of the block
//   18 (e)      branch predicates, barrier phase, thread block and grid; next block of each lane, sizes of results
//   19 (e + 1)  lane records of all warps; who is ready, who waits, what is pending
//   20 (e + 2)  pending items of the last pass; next item after the cursor, lowest ready block
//   21 (e + 3)  results; the next token's kind and payload
//
// The order of decisions: a trap; a value not complete; the next pending item; the chain of a new thread block; then
// the schedule: ready lanes of this warp, another warp, a barrier, the next thread block, the end.
#include "model/netlist/machine_builder.h"

namespace qgpu {

class LateBuilder {
 public:
  explicit LateBuilder(MachineBuilder& machine)
      : m_(machine), net_(machine.net), e_(machine.machine.slots.back().last + 1) {}

  void Build() {
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

 private:
  struct Record {
    Signal exited, phase;
    std::vector<Signal> block;
  };
  // What the last pass left to be written back, as read from the pending cells.
  struct PendingItems {
    std::array<Signal, kSlots> predicate, uniform;
    std::array<LaneBits, kSlots> value;
    std::array<Signal, kSlots> is_store, coalesced;  // id -1 in multiply slots
    Signal trap;
    std::vector<Signal> trap_kind, trap_slot, trap_lane;
    LaneBits active;
    std::array<Signal, kSlots> uniform_fits8, uniform_fits20;
    std::array<LaneBits, kSlots> fits8, fits20;
  };
  // Where the cursor stands: position 4 * slot + lane, or -1 for none yet.
  struct Cursor {
    int position;
    Literals literals;
    bool uniform;
  };

  Linear Kind(TokenKind kind) const { return m_.Kind(kind); }

  void ControlRow() {
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

  void LaunchCells() {
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
  std::vector<Literals> TakenCases(int q) const {
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
  void NextBlocks() {
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
  void Sizes() {
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
  void ThreadBlocks() {
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

  // Lane records: (exited, phase, block) of eight warps, all read at once; and the current warp's once more.
  void LaneRecords() {
    for (int q = 0; q < kLaneCount; ++q) {
      const std::vector<Signal> fields = {next_[q].exited,   next_[q].phase,    next_[q].block[0], next_[q].block[1],
                                          next_[q].block[2], next_[q].block[3], next_[q].block[4]};
      Head& all = m_.NewHead(fmt::format("lane{}.records", q), e_ + 1);
      all.keys = RowsOf(Forms(record_warp_));
      all.write = write_record_[q];
      for (int w = 0; w < kWarps; ++w) {
        all.queries.push_back({w, 1.0});
        const Literals here = Equals(record_warp_, w);
        const std::string name = fmt::format("lane{}.warp{}", q, w);
        Record& record = records_[w][q];
        record = {net_.Bit(name + ".exited"), net_.Bit(name + ".phase"), net_.Bits(name + ".block", 5)};
        for (int i = 0; i < 7; ++i) {
          all.on.push_back({8 * w + i, All(here + Literals{fields[i]})});
          all.off.push_back({8 * w + i, All(here + Literals{Not(fields[i])})});
          all.taps.push_back({8 * w + i, i == 0 ? record.exited : i == 1 ? record.phase : record.block[i - 2]});
        }
        all.on.push_back({8 * w + 7, All(here)});
      }
      Head& one = m_.NewHead(fmt::format("lane{}.record", q), e_ + 1);
      one.keys = RowsOf(Forms(record_warp_));
      one.write = write_record_[q];
      one.queries = RowsOf(Forms(m_.warp));
      StoreBits(one, 0, Forms(fields));
      PadCells(one, 7, 57, 1.0);
      const std::string name = fmt::format("lane{}.current", q);
      Record& record = current_[q];
      record = {net_.Bit(name + ".exited"), net_.Bit(name + ".phase"), net_.Bits(name + ".block", 5)};
      for (int i = 0; i < 7; ++i) {
        one.taps.push_back({i, i == 0 ? record.exited : i == 1 ? record.phase : record.block[i - 2]});
      }
    }
    // Which lanes each warp of a thread block has: the next warp's on WARP, warp 0's on a new thread block.
    Head& exist = m_.NewHead("lanes_of_warp", e_ + 1);
    const Linear is_warp = Kind(TokenKind::kWarp);
    exist.keys = RowsOf(Forms(m_.f, 9, 3));
    exist.write = is_warp;
    for (int i = 0; i < kLaneCount; ++i) {
      exist.on.push_back({i, m_.f[i]});
      exist.off.push_back({i, m_.g[i]});
    }
    PadCells(exist, 4, 60, 1.0);
    exist.queries.push_back({0, Kind(TokenKind::kCtaX) + Kind(TokenKind::kCtaY) + Kind(TokenKind::kCtaZ)});
    for (int w = 1; w < kWarps; ++w) {
      exist.queries.push_back({w, All(Literals{is_warp} + Equals(Slice(m_.f, 9, 3), w - 1))});
    }
    next_lanes_ = net_.Bits("next_warp.lanes", 4);
    for (int i = 0; i < kLaneCount; ++i) exist.taps.push_back({i, next_lanes_[i]});
  }

  void Readiness() {
    const int layer = e_ + 1;
    const auto ready = [&](const Record& record, Signal out) {
      net_.Restoring(layer, {Not(record.exited), record.phase, phase_}, {{out}});
      net_.Restoring(layer, {Not(record.exited), Not(record.phase), Not(phase_)}, {{out}});
    };
    Linear live = 32.0;
    std::array<Linear, 5> ones;
    for (int w = 0; w < kWarps; ++w) {
      for (int q = 0; q < kLaneCount; ++q) {
        const Record& record = records_[w][q];
        ready_[w][q] = net_.Bit(fmt::format("lane{}.warp{}.ready", q, w));
        ready(record, ready_[w][q]);
        live += -1.0 * Linear(record.exited);
        for (int i = 0; i < 5; ++i) ones[i] += record.block[i];
      }
    }
    alive_ = net_.Bit("alive");
    net_.Step(layer, {}, live, {{alive_}});
    // Bits of the waiting lanes' block that do not agree; exited lanes have block 0.
    apart_bits_ = net_.Count("apart_bits", 5);
    for (int i = 0; i < 5; ++i) {
      net_.Step(layer, {}, ones[i], {{apart_bits_}});
      net_.Step(layer, {}, ones[i] - live + 1.0, {{apart_bits_, -1}});
    }
    // Nobody alive: the second step above holds without the first.
    net_.Step(layer, {}, 1.0 - live, {{apart_bits_, 5}});
    for (int q = 0; q < kLaneCount; ++q) {
      current_ready_[q] = net_.Bit(fmt::format("lane{}.current.ready", q));
      ready(current_[q], current_ready_[q]);
      for (int other = 0; other < kLaneCount; ++other) {
        if (other == q) continue;
        blocked_[q][other] = net_.Bit(fmt::format("lane{}.behind[{}]", q, other));
        Linear ahead;
        for (int i = 0; i < 5; ++i) {
          ahead += static_cast<double>(1 << i) * (Linear(current_[q].block[i]) - current_[other].block[i]);
        }
        const Record& record = current_[other];
        net_.Step(layer, {Not(record.exited), record.phase, phase_}, ahead, {{blocked_[q][other]}});
        net_.Step(layer, {Not(record.exited), Not(record.phase), Not(phase_)}, ahead, {{blocked_[q][other]}});
      }
    }
  }

  // Items of this pass: what each slot will have written back.
  void Pending() {
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
  void PendingCells() {
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

  std::vector<Cursor> Cursors() const {
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
  std::pair<Signal, Signal> CursorSize(const Cursor& cursor) const {
    const int slot = cursor.position / 4, lane = cursor.position % 4;
    if (cursor.uniform) return {items_.uniform_fits8[slot], items_.uniform_fits20[slot]};
    return {items_.fits8[slot][lane], items_.fits20[slot][lane]};
  }

  // Lane q is the lowest active one of the last pass.
  Literals LowestActive(int q) const {
    Literals literals = {items_.active[q]};
    for (int lower = 0; lower < q; ++lower) literals.push_back(Not(items_.active[lower]));
    return literals;
  }

  // Outputs that choose the payload of (slot, lane).
  std::vector<Output> PayloadOf(int slot, int lane) const {
    std::vector<Output> outputs = {{read_result_[slot][lane / 2]}};
    if (lane % 2 == 1) outputs.push_back({odd_lane_});
    return outputs;
  }

  void Items() {
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
  void Continue(const Cursor& cursor) {
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

  Linear AnyItem(int position) const {
    const int slot = position / 4, lane = position % 4;
    Linear any = items_.value[slot][lane];
    if (lane == 0) any += Linear(items_.predicate[slot]) + items_.uniform[slot];
    return any;
  }

  // The item at `position` comes next after the cursor, whose value is complete.
  void NextItem(const Cursor& cursor, int position) {
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

  // What the schedule needs, and the chain of tokens that starts a thread block.
  void Schedule() {
    const int layer = e_ + 2;
    Linear ready_here, ready_anywhere;
    Literals none_here;
    for (int q = 0; q < kLaneCount; ++q) {
      run_[q] = net_.Bit(fmt::format("lane{}.run", q));
      Literals lowest = {current_ready_[q]};
      for (int other = 0; other < kLaneCount; ++other) {
        if (other != q) lowest.push_back(Not(blocked_[q][other]));
      }
      net_.Restoring(layer, lowest, {{run_[q]}});
      ready_here += current_ready_[q];
      none_here.push_back(Not(current_ready_[q]));
    }
    for (int w = 0; w < kWarps; ++w) {
      warp_ready_[w] = net_.Bit(fmt::format("warp{}.ready", w));
      Linear lanes;
      for (int q = 0; q < kLaneCount; ++q) lanes += ready_[w][q];
      net_.Step(layer, {}, lanes, {{warp_ready_[w]}});
      ready_anywhere += lanes;
    }
    any_here_ = net_.Bit("any_ready_here");
    net_.Step(layer, {}, ready_here, {{any_here_}});
    switches_ = net_.Bit("switches");
    const Linear elsewhere = ready_anywhere - ready_here;
    net_.Step(layer, {yields_}, elsewhere, {{switches_}});
    net_.Step(layer, Literals{Not(yields_)} + none_here, elsewhere, {{switches_}});
    apart_ = net_.Bit("waiting_apart");
    net_.Step(layer, {}, apart_bits_, {{apart_}});

    for (Signal* s : {&do_next_warp_, &do_warp0_, &do_ctay_, &do_ctaz_}) *s = net_.Bit("chain");
    net_.Restoring(layer, {Kind(TokenKind::kWarp), next_lanes_[0]}, {{do_next_warp_}});
    Literals zero;
    for (int i = 0; i < 8; ++i) zero.push_back(m_.g[i]);
    net_.And(layer, {Kind(TokenKind::kCtaX)}, {{do_warp0_}});
    net_.And(layer, {Kind(TokenKind::kCtaY)}, {{do_warp0_}});
    net_.And(layer, {Kind(TokenKind::kCtaZ)}, {{do_warp0_}});
    net_.And(layer, Literals{Kind(TokenKind::kCtaX)} + zero, {{do_warp0_, -1}, {do_ctay_}});
    net_.And(layer, Literals{Kind(TokenKind::kCtaY)} + zero, {{do_warp0_, -1}, {do_ctaz_}});
  }

  // Two lanes' results a head, addresses and predicates; written by EXEC, read for the chosen item.
  void Results() {
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

  Output NextKind(TokenKind kind) const { return {m_.machine.next_kind[static_cast<int>(kind)]}; }

  // Payload bit `bit` of the next token is `value` where `when` holds.
  void PayloadBit(int bit, const Literals& when, const Linear& value) {
    net_.And(e_ + 3, when + Literals{value}, {{m_.machine.next_payload_on[bit]}});
    net_.And(e_ + 3, when + Literals{Not(value)}, {{m_.machine.next_payload_off[bit]}});
  }

  void ChooseKind(TokenKind kind, const Literals& when) { net_.And(e_ + 3, when, {NextKind(kind)}); }

  // Payload bits first .. first + count - 1 are the digits of `value`.
  void PayloadNumber(int first, int count, const Literals& when, int value) {
    std::vector<Output> outputs;
    for (int i = 0; i < count; ++i) {
      outputs.push_back(
          {value >> i & 1 ? m_.machine.next_payload_on[first + i] : m_.machine.next_payload_off[first + i]});
    }
    net_.And(e_ + 3, when, outputs);
  }

  void NextToken() {
    MachineNetlist& machine = m_.machine;
    machine.next_kind = net_.Update(machine.kind);
    machine.next_payload_on = net_.Update(machine.payload_on);
    machine.next_payload_off = net_.Update(machine.payload_off);
    for (const auto& [old, next] : {std::pair{machine.kind, machine.next_kind},
                                    {machine.payload_on, machine.next_payload_on},
                                    {machine.payload_off, machine.next_payload_off}}) {
      for (size_t i = 0; i < old.size(); ++i) net_.Linearly(e_ + 3, Linear(old[i]), {{next[i], -1}});
    }
    NextOfPass();
    NextOfChain();
    NextOfSchedule();
  }

  void NextOfPass() {
    ChooseKind(TokenKind::kTrap, {do_trap_});
    for (int i = 0; i < 2; ++i) {
      PayloadBit(i, {do_trap_}, items_.trap_kind[i]);
      PayloadBit(8 + i, {do_trap_}, items_.trap_lane[i]);
      PayloadBit(10 + i, {do_trap_}, items_.trap_slot[i]);
      PayloadBit(8 + i, {do_val0_}, next_lane_[i]);
      PayloadBit(10 + i, {Linear(do_val0_) + do_val0u_ + do_pred_}, next_slot_[i]);
    }
    ChooseKind(TokenKind::kVal0, {do_val0_});
    ChooseKind(TokenKind::kVal0U, {do_val0u_});
    ChooseKind(TokenKind::kVal1, {do_val1_});
    ChooseKind(TokenKind::kVal2, {do_val2_});
    ChooseKind(TokenKind::kPred, {do_pred_});
    ChooseKind(TokenKind::kMem, {do_mem_});
    for (int side = 0; side < 2; ++side) {
      const Linear lane = side == 0 ? Not(odd_lane_) : Linear(odd_lane_);
      const std::vector<Signal>& result = side == 0 ? even_ : odd_;
      for (int k = 0; k < 8; ++k) PayloadBit(k, {Linear(do_val0_) + do_val0u_, lane}, result[k]);
      for (int k = 0; k < 12; ++k) PayloadBit(k, {do_val1_, lane}, result[8 + k]);
      for (int k = 0; k < 12; ++k) PayloadBit(k, {do_val2_, lane}, result[20 + k]);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      for (int q = 0; q < kLaneCount; ++q) {
        PayloadBit(q, Literals{do_pred_} + Equals(next_slot_, slot), predicates_[slot][q]);
        if (slot % 2 == 0) continue;
        const Literals here = Literals{do_mem_} + Equals(next_slot_, slot) + Equals(next_lane_, q);
        for (int bit = 0; bit < 7; ++bit) PayloadBit(bit, here, bases_[slot][q][bit]);
      }
    }
  }

  void NextOfChain() {
    ChooseKind(TokenKind::kWarp, {Linear(do_next_warp_) + do_warp0_});
    for (int i = 0; i < 4; ++i) PayloadBit(i, {Linear(do_next_warp_) + do_warp0_}, next_lanes_[i]);
    PayloadNumber(9, 3, {do_warp0_}, 0);
    for (int w = 0; w + 1 < kWarps; ++w) {
      PayloadNumber(9, 3, Literals{do_next_warp_} + Equals(Slice(m_.f, 9, 3), w), w + 1);
    }
    ChooseKind(TokenKind::kCtaY, {do_ctay_});
    PayloadNumber(0, 8, {do_ctay_, last_[1]}, 0);
    for (int i = 0; i < 8; ++i) PayloadBit(i, {do_ctay_, Not(last_[1])}, successor_[1][i]);
    ChooseKind(TokenKind::kCtaZ, {do_ctaz_});
    for (int i = 0; i < 6; ++i) PayloadBit(i, {do_ctaz_}, successor_[2][i]);
  }

  void NextOfSchedule() {
    const Linear may = m_.IsWork() + Kind(TokenKind::kSwitchWarp) + Kind(TokenKind::kBar) + Kind(TokenKind::kWarp);
    const Linear decided =
        Linear(do_trap_) + do_val0_ + do_val0u_ + do_val1_ + do_val2_ + do_pred_ + do_mem_ + do_next_warp_;
    const Literals schedule = {may, Not(decided)};

    const Literals exec = schedule + Literals{any_here_, Not(switches_)};
    ChooseKind(TokenKind::kExec, exec);
    for (int q = 0; q < kLaneCount; ++q) {
      PayloadBit(q, exec, run_[q]);
      Literals lowest = exec + Literals{run_[q]};
      for (int lower = 0; lower < q; ++lower) lowest.push_back(Not(run_[lower]));
      for (int i = 0; i < 5; ++i) PayloadBit(4 + i, lowest, current_[q].block[i]);
    }

    const Literals other_warp = schedule + Literals{switches_};
    ChooseKind(TokenKind::kSwitchWarp, other_warp);
    for (int w = 0; w < kWarps; ++w) {
      Literals from = other_warp + Equals(m_.warp, w);
      for (int step = 1; step < kWarps; ++step) {
        const int to = (w + step) % kWarps;
        PayloadNumber(9, 3, from + Literals{warp_ready_[to]}, to);
        from.push_back(Not(warp_ready_[to]));
      }
    }

    const Literals nobody = schedule + Literals{Not(any_here_), Not(switches_)};
    const Literals waiting = nobody + Literals{alive_};
    ChooseKind(TokenKind::kBar, waiting + Literals{Not(apart_)});
    PayloadBit(0, waiting + Literals{Not(apart_)}, Not(phase_));
    ChooseKind(TokenKind::kTrap, waiting + Literals{apart_});
    PayloadNumber(0, 2, waiting + Literals{apart_}, static_cast<int>(TrapKind::kBarrierDivergence));
    PayloadNumber(8, 4, waiting + Literals{apart_}, 0);

    const Literals over = nobody + Literals{Not(alive_)};
    ChooseKind(TokenKind::kDone, over + Literals{last_[0], last_[1], last_[2]});
    ChooseKind(TokenKind::kCtaX, over + Literals{Not(last_[0])});
    for (int i = 0; i < 8; ++i) PayloadBit(i, over + Literals{Not(last_[0])}, successor_[0][i]);
    for (const Literals& more : {Literals{last_[0], Not(last_[1])}, Literals{last_[0], last_[1], Not(last_[2])}}) {
      ChooseKind(TokenKind::kCtaX, over + more);
      PayloadNumber(0, 8, over + more, 0);
    }
  }

  MachineBuilder& m_;
  Netlist& net_;
  const int e_;

  std::vector<Signal> condition_, control_kind_, target_, fall_through_;
  Signal negate_, yield_, yields_, phase_;
  LaneBits file_condition_, write_record_;
  std::array<std::vector<Signal>, 3> cta_, grid_, successor_;
  std::array<Signal, 3> last_;
  std::array<Record, kLaneCount> next_, current_;
  std::vector<Signal> record_warp_, next_lanes_;
  std::array<std::array<Record, kLaneCount>, kWarps> records_;
  std::array<std::array<Signal, kLaneCount>, kWarps> ready_;
  std::array<std::array<Signal, kLaneCount>, kLaneCount> blocked_;
  LaneBits current_ready_, run_;
  std::array<Signal, kWarps> warp_ready_;
  Signal alive_, apart_bits_, apart_, any_here_, switches_;
  std::array<LaneBits, kSlots> fits8_, fits20_;
  std::array<Signal, kSlots> same_base_bits_;
  PendingItems pending_, items_;
  Signal do_val0_, do_val0u_, do_val1_, do_val2_, do_pred_, do_mem_, do_trap_, odd_lane_;
  Signal do_next_warp_, do_warp0_, do_ctay_, do_ctaz_;
  std::vector<Signal> next_slot_, next_lane_;
  std::array<std::array<Signal, 2>, kSlots> read_result_;
  std::vector<Signal> even_, odd_;
  std::array<std::array<std::vector<Signal>, kLaneCount>, kSlots> bases_;
  std::array<LaneBits, kSlots> predicates_;
};

void MachineBuilder::Late() { LateBuilder(*this).Build(); }

}  // namespace qgpu
