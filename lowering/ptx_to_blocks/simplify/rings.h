// Variables of a loop that exchange their values in a ring: all of them would have to be written at once, and a machine
// block writes four. A copy of one of them, made before, opens the ring.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// One copy in each ring of more than four phis, or copies of all phis that become another phi of the same block.
enum class RingsToBreak { kOnce, kEverywhere };

// Only instruction selection may follow: copies look like additions of 0.
void BreakRings(IrFunction& function, RingsToBreak which);

}  // namespace qgpu::lower
