// From a schedule to the program: layout, registers, control rows, origins.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/pack/schedule.h"

namespace qgpu::lower {

// The blocks lie in `layout.order`, so that lanes that leave a loop or take one side of a branch wait at a higher
// number until the others arrive. kInvalidArgument where the program does not fit ("needs 37 machine blocks, the ROM
// holds 32", "needs 18 registers, 15 usable").
inline constexpr const char* kBlockShortage = "qgpu/blocks";  // payload: how many are missing
absl::StatusOr<Program> EmitProgram(const IrFunction& function, const FlowGraph& flow, const Layout& layout,
                                    SchedulePlan plan, const MachineGeometry& geometry);

}  // namespace qgpu::lower
