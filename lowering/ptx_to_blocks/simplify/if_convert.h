// Short branches become predication: what they skip runs for every lane, loads and stores under a guard, and joins
// select. A skipped block costs a pass of its own and keeps what is before and behind it in different machine blocks.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

inline constexpr int kMaxPredicatedInstructions = 4;

// Converts triangles and diamonds whose sides have at most that many instructions; true where something changed. Runs
// on 32-bit values, after LowerPredicatePhis; Simplify afterwards joins the blocks.
bool ConvertShortBranches(IrFunction& function);

}  // namespace qgpu::lower
