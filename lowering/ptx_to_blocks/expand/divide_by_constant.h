// Quotients by constants as multiplications: Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication" (1994).
#pragma once

#include <cstdint>

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/narrow/pairs.h"

namespace qgpu::lower {

// `value`, a 32-bit one that is known to be in `range`, divided by `divisor`, which is not 0.
int QuotientByConstant(IrFunction& function, PairMath& math, int value, const Range& range, uint32_t divisor,
                       bool is_signed);

}  // namespace qgpu::lower
