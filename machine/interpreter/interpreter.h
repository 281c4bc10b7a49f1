// The reference: machine blocks in plain C++. It shares no code with the circuit. Entry: Interpret.
#pragma once

#include "machine/isa/machine_launch.h"

namespace qgpu {

// Runs `launch` (validated, see ValidateLaunch) and returns the exact token sequence that the model must write, with
// the final state. Stops with LaunchEnd::kBudget after `token_budget` tokens; the state is then that of an unfinished
// pass and not to be compared. Deterministic, never fails.
MachineRun Interpret(const MachineLaunch& launch, int64_t token_budget);

// One result and slot predicate of a lane, for tests of single ops and for trap addresses.
struct SlotResult {
  uint32_t value = 0;
  bool predicate = false;
};

// The ALU of one op whose operands are in hand (not ld, st, ballot and shuffles, which look at other lanes or memory).
SlotResult EvaluateOp(Op op, uint32_t a, uint32_t b, uint32_t c, bool guard, bool previous_predicate);

}  // namespace qgpu
