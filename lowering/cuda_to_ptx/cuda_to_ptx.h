// First station of the lowering: CUDA C++ to PTX for sm_75, by clang 19 and its NVPTX backend. Kernels are untrusted,
// and small sources make compilers abort, explode or read files, so both stages run as sandboxed children (sandbox.h)
// that see our own device headers (device/, embedded in this library) and nothing else of the file system. No CUDA
// toolkit takes part, and equal sources give equal PTX on every host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu {

struct SandboxLayers;

// What a compilation may use. Exceeding any of them is an error about the kernel, not about this machine.
struct CompileLimits {
  int wall_ms = 120000;                              // together: a net behind processor time, for busy machines
  int cpu_seconds = 15;                              // each of frontend and backend
  uint64_t address_space_bytes = uint64_t{1} << 30;  // each; clang itself needs about 300 MB
  uint64_t output_bytes = uint64_t{4} << 20;         // PTX, and LLVM IR between the two stages
  uint64_t source_bytes = uint64_t{1} << 20;
};

struct CompiledParameter {
  std::string name;  // as in the source; "" when the kernel leaves it unnamed
  std::string type;  // "pointer", "i32", "i64", ... (LLVM's spelling)
  bool is_pointer = false;
  uint32_t bytes = 0;  // size in the parameter space: 8 for a pointer
};

// One `__global__` function.
struct CompiledKernel {
  std::string name;      // as written in CUDA, with template arguments: "copy<int>"; without namespaces
  std::string ptx_name;  // the .entry's name
  std::vector<CompiledParameter> parameters;
  std::string file;  // as the source calls itself
  int line = 0;

  std::vector<std::string> ParameterNames() const;
};

struct CompiledPtx {
  std::string ptx;
  std::vector<CompiledKernel> kernels;  // in the order of the source's lines
  std::string warnings;                 // the compiler's, cleaned like its errors; "" when there are none
};

// Compiles `source` (language kCuda). Deterministic; thread safe.
//   kInvalidArgument    the kernel does not compile (the compiler's messages, with the user's file and line), makes the
//                       compiler crash, or exceeds a limit (named, with what to do)
//   kFailedPrecondition clang 19 is not installed (see FindClang)
//   kUnavailable        no scratch folder or process could be made
absl::StatusOr<CompiledPtx> CompileCudaToPtx(const KernelSource& source, const CompileLimits& limits = {});

// For tests: the same as on a kernel that lacks some of the sandbox's layers.
absl::StatusOr<CompiledPtx> CompileCudaToPtxWith(const SandboxLayers& layers, const KernelSource& source,
                                                 const CompileLimits& limits = {});

// The kernel called `name`, in CUDA or in PTX; "" for a file's only kernel.
// kInvalidArgument listing the kernels there are.
absl::StatusOr<const CompiledKernel*> FindKernel(const CompiledPtx& compiled, const std::string& name);

// Path of the clang 19 program: $QGPU_CLANG where set, otherwise from Debian's place or PATH.
// kFailedPrecondition naming the package to install.
absl::StatusOr<std::string> FindClang();

}  // namespace qgpu
