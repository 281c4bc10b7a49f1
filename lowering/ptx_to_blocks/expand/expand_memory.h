// Memory accesses that no single load or store of the machine does become several: atomic operations and stores of 8
// and 16 bits read a word, change it and write it back in a serial block, which one lane at a time runs from its start
// to its end, so that no other thread comes in between.
#pragma once

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// `threads` of a thread block: a single one needs no serial blocks.
void ExpandMemory(IrFunction& function, uint32_t threads);

// Serial blocks in which no load and no store is left are like others.
void DropNeedlessSerial(IrFunction& function);

}  // namespace qgpu::lower
