// Loop variables. LLVM walks arrays with one pointer each and counts turns with another variable; every variable of a
// loop is written back in every turn, and that is what tokens are spent on. Here
//   - a pointer that walks from `parameter + x` becomes the parameter plus a byte index that walks from x, and pointers
//     with equal walks share one index (an access adds the parameter for nothing: it is a special word);
//   - a counter that is only compared with its end is replaced by an index that walks in step with it, where the
//   launch's
//     bounds prove that no product wraps;
//   - an index that is compared with its end counts up to zero instead, from bases moved by as much: the addition's own
//     predicate then says when it ends, and the comparison needs no slot. That takes a register for each base, and pays
//     only where the slot is short.
// Runs on 32-bit values, after Narrow.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"

namespace qgpu::lower {

// True where something changed; Simplify afterwards removes what became dead.
bool ShareByteIndices(IrFunction& function);
bool ReplaceCounters(IrFunction& function, const LaunchFacts& facts);
bool RebaseIndices(IrFunction& function);

}  // namespace qgpu::lower
