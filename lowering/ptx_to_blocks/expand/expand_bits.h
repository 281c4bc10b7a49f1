// Operations that are much shorter as loops: the upper half of a product of 64-bit values, the n-th one of a word, and
// bytes chosen by numbers that are not constant.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// Replaces every kMulHighU. Runs before Narrow.
void ExpandWideProducts(IrFunction& function);

// Replaces every kDropOnes and kPermute. Runs after Narrow.
void ExpandBitLoops(IrFunction& function);

}  // namespace qgpu::lower
