// Internal to model/netlist: the construction of one slot.
//
// One instruction slot for four lanes. Slots 0 and 2 multiply and take five layers, slots 1 and 3 shift, compare for
// minimum and maximum, permute bits and store, and take three:
//
//   layer     multiply slot                              general slot
//   rom       ROM row; op lines, older results           the same
//   base      operands A, B, guard; add/sub 1,           operands A, B, guard; add/sub 1, logic, shift by 8s,
//             partial products, logic                    shuffle sources
//   base + 1  adder 2, select; columns to bits           adder 2, shift by 0 to 7, bit operations, shuffle, ballot
//   base + 2  operand C; rows to two; predicate, trap    operand C, loaded word; store, load, min/max, select;
//                                                        predicate, trap
//   base + 3  adder 1 of the two rows
//   base + 4  loaded word; adder 2
//
// A lane that is not active has result 0: every op line has the lane's `active` in it.
#pragma once

#include <string>
#include <vector>

#include "model/netlist/adder.h"
#include "model/netlist/machine_builder.h"

namespace qgpu {

// A pattern like "001***" over op bits 5..0.
inline Literals Matches(const std::vector<Signal>& op, const char* pattern) {
  Literals literals;
  for (int i = 0; i < 6; ++i) {
    if (pattern[i] == '1') literals.push_back(op[5 - i]);
    if (pattern[i] == '0') literals.push_back(Not(op[5 - i]));
  }
  return literals;
}

class SlotBuilder {
 public:
  SlotBuilder(MachineBuilder& machine, int slot)
      : m_(machine), net_(machine.net), slot_(slot), plan_(machine.machine.slots[slot]), s_(machine.slots[slot]) {}

  void Build();

 private:
  std::string Name(const std::string& what) const { return fmt::format("slot{}.{}", slot_, what); }
  std::string Name(const std::string& what, int lane) const {
    return fmt::format("slot{}.lane{}.{}", slot_, lane, what);
  }

  // slot.cc: its instruction, its operands, its guard
  LaneBits Line(const std::string& name, const char* pattern);
  void RomRow();
  std::vector<Signal> RomData() const;
  void OpLines();
  void OlderSources();
  int PortHead(const std::string& port, int lane, int layer, const std::vector<Signal>& code, const Literals& enable,
               const Word& target);
  void OperandHeads();
  void SpecialHead();
  void PredicateHeads();
  void Guard();
  void OlderC();
  void CHeads();
  void MemoryHeads();

  // slot_compute.cc: sums, products, logic, shifts, shuffles, and the choice among them
  void AddAndSubtract();
  void Logic();
  void PartialProducts();
  void Columns();
  void Thresholds(int layer, const Linear& count, int largest, const std::vector<Signal>& bits,
                  const Literals& enable = {});
  void Shift();
  void BitOperations();
  void Shuffle();
  void ShuffleSources(int q, int width, const std::array<Signal, kLaneCount>& from);
  void RowsToTwo();
  void FinishMultiply();
  void FinishGeneral();

  // slot_finish.cc: where it stores, its predicate, its trap, whether its result is uniform
  void StoreBase(int q);
  void Predicate();
  void Trap();
  void Uniform();

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

}  // namespace qgpu
