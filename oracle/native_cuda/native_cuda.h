// The ground truth: PTX on an NVIDIA GPU, through the CUDA driver. The driver compiles it; of this project only the PTX
// parser takes part, for the kernel's name and its parameters.
//
// All buffers lie in one allocation, laid out as the arena of kernels/launch_spec.h: a pointer argument is the address
// of the arena's word 0 plus the buffer's byte address, and word 0 is given to nobody. Behind the arena are zeros to
// the end of the machine's memory, as for native-cpu. In front of all that and behind it lie guard words of a pattern:
// a kernel that writes there is out of range. Reads of the guards, and accesses further away that still hit memory of
// the process, are not noticed: hardware has no bounds.
//
// A kernel that goes wrong leaves a dead context, one that never ends cannot be stopped, and the driver may hang: run
// one launch in a process, and end that process after anything but kDone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "oracle/native_cuda/cuda_driver.h"

namespace qgpu {

enum class CudaEnd {
  kDone,
  kOutOfRange,  // an illegal address, or a changed guard word
  kMisaligned,
  kTrap,     // `trap`, a failed assertion, or whatever else made the device give the kernel up
  kTimeout,  // still running at the time limit (it then runs on until the process ends), or stopped by the driver
};

struct NativeCudaRun {
  CudaEnd end = CudaEnd::kDone;
  MemoryImage memory;               // kDone: every word of the arena
  std::string message;              // anything else: what happened, in the driver's words
  CudaDevice device;                // that it ran on
  std::string ptx_version, target;  // of the PTX: "6.4", "sm_75"
  int64_t compile_ns = 0, run_ns = 0;
};

struct NativeCudaOptions {
  std::string library = kCudaLibrary;
  int64_t wall_ms = 10'000;     // of the run itself
  uint32_t memory_words = 126;  // there are so many, or as many as the arena has
};

// Runs the kernel `entry` of `ptx`; spec.source and spec.kernel are ignored. Arguments go to parameters as for
// native-cpu.
//   kInvalidArgument     the PTX does not compile (with the driver's log), arguments or launch shape do not fit
//   kUnimplemented       PTX of a version or for an architecture that this driver or device does not take
//   kFailedPrecondition  there is no driver or no device: not run, and why
//   kUnavailable         the device or the driver failed
absl::StatusOr<NativeCudaRun> RunNativeCuda(const std::string& ptx_name, const std::string& ptx,
                                            const std::string& entry, const LaunchSpec& spec,
                                            const std::vector<std::string>& parameter_names,
                                            const NativeCudaOptions& options = {});

}  // namespace qgpu
