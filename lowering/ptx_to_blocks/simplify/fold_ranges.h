// Operations that change nothing because of the range of their operand: extensions of what fits already, limits that
// are never reached, comparisons that are decided. Only the launch's shape counts: what the kernel computes from its
// arguments is left to the machine.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"

namespace qgpu::lower {

// True where something changed. For functions of 32-bit values (after Narrow).
bool FoldByRanges(IrFunction& function, const LaunchFacts& facts);

}  // namespace qgpu::lower
