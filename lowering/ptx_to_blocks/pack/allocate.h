// Registers and predicates for the variables of a schedule: liveness over machine blocks, an interference graph, and
// colouring with as few moves left as possible.
//
// Divergence needs no care here: lanes of a machine warp run different blocks, but every lane has its own registers.
#pragma once

#include <vector>

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/pack/schedule.h"

namespace qgpu::lower {

// The machine blocks of a schedule in one row, as the program will have them.
struct FlatBlock {
  BlockPlan* plan = nullptr;
  Place condition;
  std::vector<int> successors;  // flat numbers
};

struct Allocation {
  std::vector<int> number;  // [variable]: register or predicate 1 to 15; 0: never written back
  int registers_used = 0, predicates_used = 0;
};

// Chooses numbers, drops write-backs that nothing reads (SlotPlan::value or variable becomes -1 there) and moves
// between variables that share a register. kResourceExhausted "needs 18 registers, 15 usable", with how many are
// missing as payload.
inline constexpr const char* kRegisterShortage = "qgpu/registers";
inline constexpr const char* kPredicateShortage = "qgpu/predicates";
absl::StatusOr<Allocation> AllocateRegisters(const IrFunction& function, SchedulePlan& plan,
                                             std::vector<FlatBlock>& blocks, const MachineGeometry& geometry);

// The variable that a slot writes back, or -1.
int WrittenVariable(const SchedulePlan& plan, const SlotPlan& slot);

}  // namespace qgpu::lower
