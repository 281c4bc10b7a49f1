// Intervals: what an operation makes of them, and what a comparison that holds leaves of them.
#pragma once

#include <vector>

#include "lowering/ptx_to_blocks/ir/ranges.h"

namespace qgpu::lower {

Range FullRange(Type type);
Range Union(const Range& a, const Range& b);
Range Intersection(const Range& a, const Range& b);
// [low, high] if the type holds it, otherwise everything.
Range MakeRange(Type type, __int128 low, __int128 high);

// The range of an instruction's value from those of its operands (in the order of args; predicates' are not looked at).
// Not for phis, constants and special words.
Range TransferRange(const IrInstruction& in, const std::vector<Range>& args);

// What `compare`(x, y) leaves of x.
Range Restrict(const Range& x, Compare compare, const Range& y);

}  // namespace qgpu::lower
