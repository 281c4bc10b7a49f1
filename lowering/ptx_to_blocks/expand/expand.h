// What the machine has no op for, in terms of what it has.
#pragma once

#include <functional>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// Adds a 32-bit instruction where the expansion is to stand, and returns its value.
using Emit32Function = std::function<int(IrOp op, std::vector<int> args)>;

// The upper 32 bits of a * b, from four products of halves; about twelve instructions, fewer where a factor is
// constant.
int ExpandHighProduct(IrFunction& function, const Emit32Function& emit, int a, int b, bool is_signed);

}  // namespace qgpu::lower
