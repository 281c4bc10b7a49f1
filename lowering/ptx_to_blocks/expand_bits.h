// Bit operations that are shorter as loops: the n-th one of a word, and bytes chosen by numbers that are not constant.
#pragma once

#include "lowering/ptx_to_blocks/ir.h"

namespace qgpu::lower {

// Replaces every kDropOnes and kPermute. Runs after Narrow.
void ExpandBitLoops(IrFunction& function);

}  // namespace qgpu::lower
