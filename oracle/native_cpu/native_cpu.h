// Ground truth where there is no NVIDIA GPU: the PTX is translated to LLVM IR with every corner of PTX's semantics
// spelled out, compiled for this CPU, and run with one fiber per thread. Nothing of the machine's side takes part (no
// lowering, scheduling or interpreter), only the PTX parser is shared, so that an agreement says something.
//
// Thread blocks run one after another; the threads of a block take turns at barriers, warp-wide operations and, after
// a while, at backward branches, so a spin lock between threads makes progress. A run is deterministic.
//
// Where PTX leaves something open, this engine says what the project's engines have agreed on: registers and shared
// memory start as zero, division by zero gives all ones and leaves the dividend as remainder, a shuffle from a lane
// that does not take part gives the reader's own value, exited threads count as arrived at a barrier.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu {

struct NativeCpuLimits {
  uint32_t memory_words = 126;             // global memory ends here, as on the machine: behind the arena are zeros
  int64_t backward_branches = 20'000'000;  // of all threads together
  int64_t wall_ms = 10'000;
};

enum class NativeEnd {
  kDone,
  kOutOfRange,         // an access outside of its state space
  kMisaligned,         // an access that is not aligned to its size
  kBarrierDivergence,  // the live threads of a block wait at different barriers
  kDeadlock,           // no thread can go on
  kTrap,               // the kernel executed `trap`
  kTimeout,            // a limit of NativeCpuLimits
};

// "done", "address out of range", ...
std::string NativeEndName(NativeEnd end);

struct NativeRun {
  NativeEnd end = NativeEnd::kDone;
  MemoryImage memory;                      // every word of the arena, also after an error
  std::vector<uint32_t> buffer_addresses;  // byte address of each argument's buffer in parameter order, 0 for scalars
  // For anything but kDone: what happened and where, "file.ptx:12 (CUDA line 3): ...", and the thread it happened to.
  std::string message;
  int ptx_line = 0, cuda_line = 0;
  std::array<uint32_t, 3> block = {0, 0, 0}, thread = {0, 0, 0};
  uint64_t address = 0;  // of kOutOfRange and kMisaligned
  int64_t backward_branches = 0;
};

// A kernel compiled for this CPU, to be run on any number of launches. Not thread safe.
class NativeCpuKernel {
 public:
  // `ptx_name` names the PTX in messages ("dot.cu.ptx"). `kernel` is the entry's name in PTX or as written in CUDA;
  // empty: the only one.
  //   kInvalidArgument  syntax errors, types that do not fit an instruction, no such kernel
  //   kUnimplemented    "file.ptx:LINE (CUDA line N): unsupported instruction `...`", and what it would need
  static absl::StatusOr<NativeCpuKernel> Compile(const std::string& ptx_name, const std::string& ptx,
                                                 const std::string& kernel);

  // Runs it; `spec.source` and `spec.kernel` are ignored. Arguments go to parameters by name where `parameter_names`
  // (CUDA's names, in order) is given. Otherwise by PTX's parameter names if an argument uses one, else by position.
  // kInvalidArgument for arguments or launch shapes that do not fit. Whatever the kernel does is told in NativeRun.
  absl::StatusOr<NativeRun> Run(const LaunchSpec& spec, const std::vector<std::string>& parameter_names = {},
                                const NativeCpuLimits& limits = {});

  NativeCpuKernel(NativeCpuKernel&&) noexcept;
  NativeCpuKernel& operator=(NativeCpuKernel&&) noexcept;
  ~NativeCpuKernel();

 private:
  struct State;
  explicit NativeCpuKernel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Compile and Run in one step, with the source's name and the kernel of `spec`.
absl::StatusOr<NativeRun> RunNativeCpu(const std::string& ptx, const LaunchSpec& spec,
                                       const std::vector<std::string>& parameter_names = {},
                                       const NativeCpuLimits& limits = {});

}  // namespace qgpu
