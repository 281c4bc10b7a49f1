// What the threads of a CUDA warp do together, in terms of what four lanes can do inside a pass and of memory.
//
// Where no value crosses the border of a machine warp it is the machine's own shuffle or ballot. Otherwise threads
// write words of scratch memory, wait at a barrier of the whole thread block (which is one CUDA warp), and read. A
// thread that has exited, or is not there, has no bit in a ballot, and who asks for its value gets the own one.
#pragma once

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"

namespace qgpu::lower {

// Afterwards no common step but kLaneShuffle and kLaneBallot is left. kUnimplemented where it is not proven that all
// threads come along ("inside divergent code") or that the member mask names them all ("with a partial mask"), with
// the line; kInvalidArgument where memory has not enough words. Runs on 32-bit values; Simplify afterwards.
absl::Status ExpandWarp(IrFunction& function, const Dim3& grid, const Dim3& block, MemoryLayout& layout);

bool HasCommonSteps(const IrFunction& function);

// Whether in this final form all kLaneShuffle and kLaneBallot run with all lanes of a machine warp in one pass; an
// error, naming one, where that is not proven.
absl::Status CheckLanesTogether(const IrFunction& function, const FlowGraph& flow, const Dim3& block);

}  // namespace qgpu::lower
