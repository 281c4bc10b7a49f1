// Internal to model/netlist: the construction of the late layers.
//
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
#pragma once

#include <array>
#include <vector>

#include "model/netlist/machine_builder.h"

namespace qgpu {

class LateBuilder {
 public:
  explicit LateBuilder(MachineBuilder& machine)
      : m_(machine), net_(machine.net), e_(machine.machine.slots.back().last + 1) {}

  void Build();

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
  Output NextKind(TokenKind kind) const { return {m_.machine.next_kind[static_cast<int>(kind)]}; }
  void ChooseKind(TokenKind kind, const Literals& when) { net_.And(e_ + 3, when, {NextKind(kind)}); }

  // late.cc: the end of a block: branches, sizes of results, thread blocks and the grid
  void ControlRow();
  void LaunchCells();
  std::vector<Literals> TakenCases(int q) const;
  void NextBlocks();
  void Sizes();
  void ThreadBlocks();

  // late_lanes.cc: lanes of all warps: where each one stands, who is ready, who runs next
  void LaneRecords();
  void Readiness();
  void Schedule();

  // late_items.cc: what a pass left to be written back, item by item
  void Pending();
  void PendingCells();
  std::vector<Cursor> Cursors() const;
  std::pair<Signal, Signal> CursorSize(const Cursor& cursor) const;
  Literals LowestActive(int q) const;
  std::vector<Output> PayloadOf(int slot, int lane) const;
  void Items();
  void Continue(const Cursor& cursor);
  Linear AnyItem(int position) const;
  void NextItem(const Cursor& cursor, int position);
  void Results();

  // late_token.cc: the next token: its kind and its payload
  void PayloadBit(int bit, const Literals& when, const Linear& value);
  void PayloadNumber(int first, int count, const Literals& when, int value);
  void NextToken();
  void NextOfPass();
  void NextOfChain();
  void NextOfSchedule();

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

}  // namespace qgpu
