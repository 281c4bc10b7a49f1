// The default machine as a netlist. Entry: BuildMachineNetlist. The files follow the token through the layers:
//   front.cc   what the token is, and the cells that say where the launch stands   (layers 0, 1)
//   slot*.cc   one instruction slot for four lanes, with multiplier or with shifter (layers 1 to 17)
//   late*.cc   lane records, pending results, and the next token                    (layers 17 to 21)
#pragma once

#include <vector>

#include "common/status.h"
#include "machine/isa/geometry.h"
#include "model/netlist/netlist.h"

namespace qgpu {

// Where the slots lie. A slot's ROM row is read in the mixer of `rom`, its operands in that of `base`, and its result
// exists after the MLP of `last`.
struct SlotPlan {
  bool multiplies;
  int rom, base, last;
};

struct MachineNetlist {
  Netlist netlist;
  std::vector<SlotPlan> slots;

  // The next token: one of `kind` is on, and of every payload bit that the kind has one rail.
  std::vector<Signal> kind, payload_on, payload_off;                 // as the token brings them
  std::vector<Signal> next_kind, next_payload_on, next_payload_off;  // in the same places, at the end

  // Heads that hold what the host reads back.
  int memory_head = 0;              // index in netlist.heads()
  std::vector<int> register_heads;  // port A of slot 0, one a lane
  int warp_head = 0, exec_head = 0, launch_head = 0;

  // Half-layer after which each signal is complete (its last contribution).
  std::vector<int> ready_time;

  // The token that the final signals spell; kInternal when `strict` and they spell none.
  absl::StatusOr<Token> DecodeNext(const std::vector<int>& values, bool strict) const;
};

// Builds and checks: every reader comes after its signal is complete, no update is read too early. kInternal naming the
// signal otherwise.
absl::StatusOr<MachineNetlist> BuildMachineNetlist();

}  // namespace qgpu
