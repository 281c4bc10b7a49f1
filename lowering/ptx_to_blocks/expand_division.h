// Division and remainder, which the machine has no op for: a loop that shifts the divisor up to the dividend and then
// down again, subtracting where it fits. Its turns are the bits of the quotient; a remainder alone takes one pass a
// turn, a quotient two. Quotient and remainder of the same operands share one loop.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir.h"
#include "lowering/ptx_to_blocks/ranges.h"

namespace qgpu::lower {

// Replaces every kDivU, kDivS, kRemU and kRemS of 32 bits by a loop, or by multiplications where the divisor is
// constant. Runs after Narrow, so that the addresses made from quotients and remainders have been proven by then.
// kInvalidArgument where there are more divisions than could ever fit into the ROM.
absl::Status ExpandDivisions(IrFunction& function, const LaunchFacts& facts);

}  // namespace qgpu::lower
