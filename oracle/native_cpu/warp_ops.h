// Warp-wide operations on the values that the lanes of one warp bring to it.
#pragma once

#include <array>
#include <cstdint>

#include "oracle/native_cpu/runtime.h"

namespace qgpu::native {

struct WarpLane {
  uint64_t value = 0;  // what is exchanged; 0 or 1 for votes
  uint32_t lane = 0;   // shuffles: operand b
  uint32_t clamp = 0;  // shuffles: operand c
  uint64_t result = 0;
  uint32_t predicate = 0;  // second result
};

// Fills in the results of every lane of `active`, which all execute `operation` now.
void ResolveWarpOp(WarpOp operation, uint32_t active, std::array<WarpLane, kWarpLanes>* lanes);

}  // namespace qgpu::native
