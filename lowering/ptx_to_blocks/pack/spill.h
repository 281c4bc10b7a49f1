// Where registers run out: values that live long are kept in scratch memory, one word for each thread, and are read
// again where they are used; those that a single instruction makes of constants and special words are made again
// instead. Predicates become numbers first. The new instructions stand right where they are needed, so what follows
// must not merge equal values.
#pragma once

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"

namespace qgpu::lower {

struct SpillRequest {
  Dim3 block;
  int usable = 15;          // registers
  bool predicates = false;  // what runs out
};

enum class SpillOutcome { kDone, kNothingLeft, kNoWords };

// Takes one more value out of the registers where most of them are in use.
SpillOutcome SpillOne(IrFunction& function, const SpillRequest& request, MemoryLayout& layout);

}  // namespace qgpu::lower
