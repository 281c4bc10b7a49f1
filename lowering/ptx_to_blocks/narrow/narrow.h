// Removes 64-bit values: each becomes its lower half and, where something looks at that, its upper one (halves.h). The
// machine's addresses are 32-bit bytes and its memory ends far below 2^28, so of an address the lower half is enough
// where that cannot turn one that a GPU would refuse into a valid one. Each address is therefore either proven to stay
// within +-2^28 (ranges.h), or the one unknown term in it, an extended 32-bit index, is clamped to a limit beyond which
// every address is out of range, which costs one or two instructions; otherwise its upper half is looked at.
#pragma once

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {

// What masks do to the low two bits of addresses that are known to be multiples of 4 and a constant.
void FoldAlignment(IrFunction& function, const LaunchFacts& facts);

// After this no live value has type kI64. Upper halves of parameters are added to `words`. kInvalidArgument where there
// are too many of them.
absl::Status Narrow(IrFunction& function, const LaunchFacts& facts, std::vector<ParameterWord>* words);

}  // namespace qgpu::lower
