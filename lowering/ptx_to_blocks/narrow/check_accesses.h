// What the machine does not check by itself: that an access to shared, constant or local memory stays inside the
// kernel's variables there, as a GPU would trap otherwise, and that accesses of 8 and 16 bytes are aligned. Where
// ranges prove it nothing is added; elsewhere the address is replaced by one that traps when the check fails.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"

namespace qgpu::lower {

// Addresses must be 32 bits wide (Narrow).
void CheckAccesses(IrFunction& function, const LaunchFacts& facts, const MemoryLayout& layout);

}  // namespace qgpu::lower
