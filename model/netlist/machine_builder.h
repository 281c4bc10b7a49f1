// Internal to model/netlist: the machine under construction. Every name is a signal of the token in hand.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "machine/isa/isa.h"
#include "model/netlist/machine_netlist.h"

namespace qgpu {

inline constexpr int kLaneCount = 4;
using Word = std::vector<Signal>;  // 32 bits, low bit first
using LaneWords = std::array<Word, kLaneCount>;
using LaneBits = std::array<Signal, kLaneCount>;

// What a slot leaves for the layers after it.
struct SlotSignals {
  std::vector<Signal> op, dst, a, b, c, guard;  // fields of the instruction
  Signal negate;
  LaneWords result;    // complete after the MLP of `last`
  LaneBits predicate;  // slot predicate; for inactive lanes the predicate register's old value
  Signal writes_predicate, writes_register, is_store;
  LaneBits stores;                                         // general slots: the lane's store takes part
  std::array<std::vector<Signal>, kLaneCount> store_base;  // general slots: (word address - lane) mod 128, 7 bits
  Linear uniform;  // 1 where the result is the same in all active lanes, else 0 or less
};

struct MachineBuilder {
  explicit MachineBuilder(MachineNetlist& under_construction)
      : machine(under_construction), net(under_construction.netlist) {}

  MachineNetlist& machine;
  Netlist& net;

  // front.cc
  std::vector<Signal> f, g;         // payload bits, on and off rails
  std::vector<Signal> warp;         // current machine warp, 3 bits
  std::vector<Signal> block, mask;  // of the last EXEC: 5 and 4 bits
  Signal started;                   // there was an EXEC since the reset
  Signal cursor_valid, cursor_uniform;
  std::vector<Signal> cursor_slot, cursor_lane;
  std::vector<Signal> data;                                    // 64 bits: the value, or the word the host assembled
  LaneBits active;                                             // lanes of the pass (one only where the block is serial)
  std::array<std::vector<Literals>, kLaneCount> active_cases;  // the same, for layer 1's own MLP
  LaneBits write_register;
  std::vector<Signal> write_row;  // register or predicate written back, 4 bits; 0 on EXEC
  Signal write_predicate, write_memory;
  std::vector<Signal> store_address;  // 7 bits

  SlotSignals slots[kSlots];
  // Lowest trapping slot and lane so far.
  Signal trap;
  std::vector<Signal> trap_kind, trap_slot, trap_lane;

  Linear Kind(TokenKind kind) const { return machine.kind[static_cast<int>(kind)]; }
  // VAL0, VAL0U, VAL1, VAL2.
  Linear IsValue() const;
  // Tokens that belong to a pass: EXEC, values, PRED, MEM.
  Linear IsWork() const;

  Head& NewHead(const std::string& name, int layer);

  void Front();
  void Slot(int slot);
  void Late();

 private:
  void FrontCells();
  void FrontTables();
  void FrontEnables();
};

// Components r = 0 .. 2^n - 1: all of `extra`, and the number `bits` is r.
std::vector<Head::Component> RowsOf(const std::vector<Linear>& bits, const Literals& extra = {});
std::vector<Linear> Forms(const std::vector<Signal>& signals);
std::vector<Linear> Forms(const std::vector<Signal>& signals, int first, int count);
std::vector<Signal> Slice(const std::vector<Signal>& signals, int first, int count);

}  // namespace qgpu
