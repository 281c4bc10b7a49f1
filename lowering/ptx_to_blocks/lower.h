// PTX to machine blocks: the stages of this directory in their order. Entry: LowerToBlocks.
//
//   calls/      InlineCalls: PTX to PTX without calls
//   translate/  PTX to SSA (ir/); where everything lies in memory
//   narrow/     64-bit values to 32-bit ones, checks of addresses
//   expand/     what the machine has no op for: division, atomics, what the threads of a warp do together
//   simplify/   fewer instructions: folding, loop variables, short branches
//   pack/       SSA to machine blocks: selection, slots, registers, spilling; several variants, the cheapest is taken
#pragma once

#include <vector>

#include "kernels/launch_spec.h"
#include "lowering/ptx/ptx.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"
#include "lowering/ptx_to_blocks/translate/translate.h"
#include "machine/isa/geometry.h"
#include "machine/isa/isa.h"

namespace qgpu::lower {

struct LoweringInput {
  const ptx::Module* module = nullptr;
  const ptx::Function* kernel = nullptr;
  Dim3 grid, block;
  std::vector<Bytes> parameters;  // content of each parameter, little-endian: what is passed, or a byte address
  std::vector<bool> is_buffer;    // of each parameter: it is the address of a buffer
  uint32_t arena_words = 1;
  uint32_t dynamic_shared_bytes = 0;
  int64_t token_budget = 0;
  MachineGeometry geometry;
};

struct LoweredBlocks {
  Program program;
  MemoryLayout layout;               // its initial content follows the arena
  std::vector<ParameterWord> words;  // what the special words from kSpecialFirstParameter on have to hold
};

// Up to 8 bytes of a parameter from `offset` on, zero-extended.
uint64_t ParameterBits(const Bytes& parameter, int offset);

// What those special words hold in a launch of `input`: MachineLaunch::parameters.
std::vector<uint32_t> ParameterValues(const LoweringInput& input, const std::vector<ParameterWord>& words);

// kUnimplemented and kInvalidArgument as compile.h says. Deterministic.
absl::StatusOr<LoweredBlocks> LowerToBlocks(const LoweringInput& input);

}  // namespace qgpu::lower
