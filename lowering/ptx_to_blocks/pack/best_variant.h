// The second half of the lowering: from a function of 32-bit values to a program, in the way that costs the fewest
// tokens among those that are tried and fit.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"
#include "machine/isa/geometry.h"
#include "machine/isa/isa.h"

namespace qgpu::lower {

// kInvalidArgument where nothing fits: "needs 37 machine blocks, the ROM holds 32", "needs 18 registers, 15 usable;
// spilling takes 3 registers x 8 threads = 24 words, 6 are free".
absl::StatusOr<Program> PackBestVariant(const IrFunction& function, const LaunchFacts& facts,
                                        const MachineGeometry& geometry, const MemoryLayout& layout);

}  // namespace qgpu::lower
