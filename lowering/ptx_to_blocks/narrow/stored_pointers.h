// Pointers in memory are refused: a kernel that writes one leaves a number that is another one on every machine.
#pragma once

#include <vector>

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {

// kUnimplemented, with the line, where a store or an atomic operation puts the address of a buffer (`is_buffer`, of
// each parameter), or what is added to one, in memory. Differences of pointers are numbers.
absl::Status RefuseStoredPointers(const IrFunction& function, const std::vector<ParameterWord>& words,
                                  const std::vector<bool>& is_buffer);

}  // namespace qgpu::lower
