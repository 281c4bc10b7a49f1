// Rewrites that make a function smaller and never change what it does: constant folding, algebraic identities, copies,
// equal values, dead values, constant branches, blocks that can be joined.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// Repeats all of the below until nothing changes.
void Simplify(IrFunction& function);

// Single steps; true where something changed.
bool FoldValues(IrFunction& function);
bool MergeEqualValues(IrFunction& function);
bool RemoveDeadValues(IrFunction& function);
bool SimplifyFlow(IrFunction& function);

}  // namespace qgpu::lower
