// What operations are of constants.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// Whether the comparison holds between constants of this type.
bool CompareValues(Compare compare, uint64_t a, uint64_t b, Type type);

// The result of an op of 32 or 64 bits whose operands are constants; nothing for what depends on more than them.
std::optional<uint64_t> Evaluate(IrOp op, Type type, const std::vector<uint64_t>& args);

// A load or store whose guard is known to be false.
bool NeverHappens(const IrFunction& function, const IrInstruction& in);

}  // namespace qgpu::lower
