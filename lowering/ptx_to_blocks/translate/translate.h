// PTX instructions to SSA. What PTX can say and this lowering can run is the table at the end of translate.cc: an
// opcode that is not in it, or a modifier or operand type that its handler does not take, is refused by name and line.
#pragma once

#include <vector>

#include "kernels/launch_spec.h"
#include "lowering/ptx/ptx.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"

namespace qgpu::lower {

// A special word that holds 32 bits of a kernel parameter; the first one is word kSpecialFirstParameter.
struct ParameterWord {
  int parameter = 0;  // index into ptx::Function::parameters
  int byte_offset = 0;
};

struct Translation {
  IrFunction function;
  std::vector<ParameterWord> words;
};

// Translates `kernel` of `module` for one launch shape: %ntid and %nctaid become constants, and indices that can only
// be 0 too. kUnimplemented for what is not supported, kInvalidArgument for PTX that contradicts itself or needs more
// parameter words than there are; both name instruction, PTX line and CUDA line.
absl::StatusOr<Translation> Translate(const ptx::Module& module, const ptx::Function& kernel, const Dim3& grid,
                                      const Dim3& block, const MemoryLayout& layout = {});

// Opcodes that have a handler, for the documentation and tests.
std::vector<std::string> SupportedOpcodes();

}  // namespace qgpu::lower
