#include "oracle/native_cpu/warp_ops.h"

namespace qgpu::native {
namespace {

bool IsActive(uint32_t active, uint32_t lane) { return (active >> lane & 1) != 0; }

// PTX's pseudocode of shfl.sync.
void Shuffle(WarpOp operation, uint32_t active, uint32_t self, std::array<WarpLane, kWarpLanes>* lanes) {
  WarpLane& own = (*lanes)[self];
  const auto lane = static_cast<int32_t>(self);
  const auto b = static_cast<int32_t>(own.lane & 31), c = static_cast<int32_t>(own.clamp & 31);
  const auto segment = static_cast<int32_t>(own.clamp >> 8 & 31);
  const int32_t max_lane = (lane & segment) | (c & ~segment), min_lane = lane & segment;
  int32_t source = 0;
  bool valid = false;
  if (operation == WarpOp::kShuffleUp) {
    source = lane - b;
    valid = source >= max_lane;
  } else if (operation == WarpOp::kShuffleDown) {
    source = lane + b;
    valid = source <= max_lane;
  } else if (operation == WarpOp::kShuffleXor) {
    source = lane ^ b;
    valid = source <= max_lane;
  } else {
    source = min_lane | (b & ~segment);
    valid = source <= max_lane;
  }
  if (!valid || !IsActive(active, static_cast<uint32_t>(source))) source = lane;
  own.result = (*lanes)[static_cast<size_t>(source)].value;
  own.predicate = valid ? 1 : 0;
}

}  // namespace

void ResolveWarpOp(WarpOp operation, uint32_t active, std::array<WarpLane, kWarpLanes>* lanes) {
  uint32_t ballot = 0, same = 0;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if (IsActive(active, lane) && (*lanes)[lane].value != 0) ballot |= 1u << lane;
  }
  for (uint32_t self = 0; self < kWarpLanes; ++self) {
    if (!IsActive(active, self)) continue;
    WarpLane& own = (*lanes)[self];
    same = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if (IsActive(active, lane) && (*lanes)[lane].value == own.value) same |= 1u << lane;
    }
    own.predicate = 0;
    switch (operation) {
      case WarpOp::kShuffleUp:
      case WarpOp::kShuffleDown:
      case WarpOp::kShuffleXor:
      case WarpOp::kShuffleIndex:
        Shuffle(operation, active, self, lanes);
        break;
      case WarpOp::kVoteAll:
        own.result = ballot == active;
        break;
      case WarpOp::kVoteAny:
        own.result = ballot != 0;
        break;
      case WarpOp::kVoteUniform:
        own.result = ballot == 0 || ballot == active;
        break;
      case WarpOp::kBallot:
        own.result = ballot;
        break;
      case WarpOp::kMatchAny:
        own.result = same;
        break;
      case WarpOp::kMatchAll:
        own.result = same == active ? active : 0;
        own.predicate = same == active;
        break;
      case WarpOp::kActiveMask:
        own.result = active;
        break;
      case WarpOp::kSync:
        own.result = 0;
        break;
    }
  }
}

}  // namespace qgpu::native
