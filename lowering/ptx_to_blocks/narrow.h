// Removes 64-bit values. The machine's addresses are 32-bit bytes and its memory ends far below 2^28, so a 64-bit
// address may be replaced by its low half only where that cannot turn an address that a GPU would refuse into a valid
// one. Each address is therefore either proven to stay within +-2^28 (ranges.h), or the one unknown term in it, an
// extended 32-bit index, is clamped to a limit beyond which every address is out of range: a check that costs one or
// two instructions and keeps out-of-range accesses out of range.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir.h"
#include "lowering/ptx_to_blocks/ranges.h"

namespace qgpu::lower {

// What masks do to the low two bits of addresses that are known to be multiples of 4 and a constant.
void FoldAlignment(IrFunction& function, const LaunchFacts& facts);

// After this no live value has type kI64. kUnimplemented, naming PTX line and CUDA line, where the high half of a value
// could matter: in a comparison or shift whose operands are not proven small, or in an address that can neither be
// proven nor checked.
absl::Status Narrow(IrFunction& function, const LaunchFacts& facts);

}  // namespace qgpu::lower
