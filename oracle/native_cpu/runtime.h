// Runs compiled kernels: state spaces, thread blocks of fibers, barriers and warp-wide operations. Compiled code calls
// back through the functions at the end of this file; it knows nothing else of the runtime but ThreadContext's fields.
//
// Compiled code returns kReturned, or kEnded when its thread is over (exit, or the run was stopped); every callback
// that can stop the thread says so, so that all frames of a fiber return and nothing is ever unwound.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/launch_spec.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu::native {

enum : uint32_t { kReturned = 0, kEnded = 1 };

// State spaces as compiled code names them.
enum class MemorySpace : uint32_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };

// Generic addresses of the state spaces; global memory begins at 0. All fit 32 bits, so that modules with 32-bit
// addresses work as well.
inline constexpr uint64_t kGlobalVariableBase = 0x10000000;  // behind the arena: the module's .global variables
inline constexpr uint64_t kSharedWindow = 0x40000000;
inline constexpr uint64_t kLocalWindow = 0x80000000;
inline constexpr uint64_t kConstWindow = 0xc0000000;
inline constexpr uint64_t kParamWindow = 0xe0000000;
uint64_t WindowOf(MemorySpace space);

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kMaxThreads = 1024;
inline constexpr uint32_t kMaxSharedBytes = 64 << 10;  // sm_75
inline constexpr uint32_t kMaxLocalBytes = 512 << 10;  // per thread
inline constexpr uint32_t kMaxConstBytes = 64 << 10;
inline constexpr uint32_t kMaxGlobalVariableBytes = 16 << 20;

class BlockRunner;

// One thread, as compiled code sees it; fields are read by their offsets.
struct ThreadContext {
  uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
  uint32_t laneid, warpid, nwarpid;
  uint32_t dynamic_shared_bytes, total_shared_bytes;
  uint32_t warp_predicate;  // second result of a warp operation
  uint64_t warp_result;     // first one, also of a barrier's reduction
  int64_t slice;            // backward branches until compiled code calls back
  uint8_t* param;           // this thread's parameter space
  BlockRunner* runner;
  uint32_t index;  // in its block
};

enum class WarpOp : uint32_t {
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kShuffleIndex,
  kVoteAll,
  kVoteAny,
  kVoteUniform,
  kBallot,
  kMatchAny,
  kMatchAll,
  kActiveMask,
  kSync,
};
enum class BarrierOp : uint32_t { kNone, kPopulation, kAnd, kOr };

using CompiledKernel = uint32_t (*)(ThreadContext*);

// What a compiled kernel needs of every launch.
struct Footprint {
  std::vector<uint8_t> global_variables, const_variables;  // initial content
  uint32_t shared_bytes = 0;                               // static
  uint32_t local_bytes = 0, param_bytes = 0;               // per thread
  size_t stack_bytes = 256 << 10;
};

struct LaunchShape {
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> parameters;  // front of the parameter space
};

// How a run ended; `instruction` is the id that compiled code passed, -1 where it does not matter.
struct RunResult {
  NativeEnd end = NativeEnd::kDone;
  int64_t instruction = -1, other_instruction = -1;
  std::array<uint32_t, 3> block = {0, 0, 0}, thread = {0, 0, 0}, other_thread = {0, 0, 0};
  uint64_t address = 0;
  uint32_t bytes = 0;
  MemorySpace space = MemorySpace::kGeneric;
  int64_t backward_branches = 0;
  const char* detail = "";
};

// Runs the whole grid on `arena`, which keeps its size.
RunResult RunGrid(CompiledKernel kernel, const Footprint& footprint, const LaunchShape& shape,
                  const NativeCpuLimits& limits, std::vector<uint32_t>* arena);

// Callbacks. `instruction` identifies the place for messages.
// Host address of `bytes` bytes at `address`, aligned to `bytes`; null ends the thread. Stores pass `is_store`.
void* AccessMemory(ThreadContext* thread, uint32_t space, uint64_t address, uint32_t bytes, uint32_t is_store,
                   uint32_t instruction);
// These give kReturned or kEnded.
uint32_t EndOfSlice(ThreadContext* thread, uint32_t instruction);
uint32_t WaitAtBarrier(ThreadContext* thread, uint32_t operation, uint32_t predicate, uint32_t instruction);
uint32_t RunWarpOp(ThreadContext* thread, uint32_t operation, uint64_t value, uint32_t lane, uint32_t clamp,
                   uint32_t members, uint32_t instruction);
uint32_t RaiseTrap(ThreadContext* thread, uint32_t instruction);

}  // namespace qgpu::native
