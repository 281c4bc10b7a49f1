// The two-layer adder: groups of five bits by thresholds on their partial sums, then carry select.
//
// Layer 1 compares T_j = sum over i <= j of 2^i (a_i + b_i) inside a group with constants: that gives the sum bit
// without a carry into the group, whether all lower bits of the group propagate a carry (flip), and for the whole group
// generate and propagate. Layer 2 flips the bits that a carry reaches; the terms P..P G of a carry exclude each other.
#pragma once

#include <string>
#include <vector>

#include "model/netlist/netlist.h"

namespace qgpu {

inline constexpr int kAdderGroups = 7;
inline constexpr int kAdderGroupBits = 5;  // the last group has the remaining 2 of 32

struct AdderSignals {
  std::vector<Signal> sum;        // 32: bits without carries between groups
  std::vector<Signal> flip;       // 32: id -1 where not needed
  std::vector<Signal> generate;   // of groups 0 .. 5, and 6 where compared
  std::vector<Signal> propagate;  // of groups 1 .. 5, and 6 where compared; [0] unused
  Signal zero_group;              // group 0 of a - b is equal
};

// Creates the signals; `pool` (at least 26, or empty) gives places for flip and propagate, which are then shared with
// whatever else is in the pool.
AdderSignals MakeAdderSignals(Netlist& net, const std::string& name, bool compares, const std::vector<Signal>& pool);

// Layer 1 of a + b, or of a - b as a + not b + 1 when `subtract`.
void AdderLayer1(Netlist& net, int layer, const Literals& enable, const std::vector<Signal>& a,
                 const std::vector<Signal>& b, bool subtract, const AdderSignals& adder);

// Generate and propagate of the top group of a - b: for signed operands the sign bits change places.
void AdderTopGroup(Netlist& net, int layer, const Literals& enable, const std::vector<Signal>& a,
                   const std::vector<Signal>& b, bool is_signed, const AdderSignals& adder);

// Layer 2: total (updates of adder.sum) += what the carries flip.
void AdderLayer2(Netlist& net, int layer, const AdderSignals& adder, const std::vector<Signal>& total);

// The exclusive terms of the carry into `group` (7: out of the adder).
std::vector<Literals> CarryTerms(const AdderSignals& adder, int group);

}  // namespace qgpu
