// Division and remainder, which the machine has no op for: a loop that shifts the divisor up to the dividend and then
// down again, subtracting where it fits. Its turns are the bits of the quotient; a remainder alone takes one pass a
// turn, a quotient two. Quotient and remainder of the same operands share one loop.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"

namespace qgpu::lower {

// Both give kInvalidArgument where there are more divisions than could ever fit into the ROM.

// Replaces every kDivU, kDivS, kRemU and kRemS of 64 bits by one of 32 bits, where the operands are known to be small,
// or by a loop on pairs. Runs before Narrow.
absl::Status ExpandWideDivisions(IrFunction& function, const LaunchFacts& facts);

// The same for 32 bits: multiplications where the divisor is constant, otherwise a loop. Runs after Narrow, so that the
// addresses made from quotients and remainders have been proven by then.
absl::Status ExpandDivisions(IrFunction& function, const LaunchFacts& facts);

}  // namespace qgpu::lower
