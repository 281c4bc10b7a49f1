// The driver of the lowering: from a launch specification to what the machine is fed. It reads as the list of stages:
// CUDA -> PTX (cuda_to_ptx) -> syntax tree (ptx) -> machine blocks (ptx_to_blocks) -> launch.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {

// A launch of one kernel, ready for Interpret, HostTokens or a model. It is made for these arguments and this shape.
struct LoweredKernel {
  MachineLaunch launch;                      // program.origins is filled: PTX line, CUDA line, text
  std::string kernel;                        // the kernel's name as the user knows it (CUDA name, or .entry's)
  std::vector<std::string> parameter_names;  // CUDA names; for a .ptx source the .param names
  std::vector<KernelArgument> arguments;     // in parameter order, named
  std::vector<uint32_t> byte_address;        // of each argument's buffer; 0 for scalars (Arena)
  size_t arena_words = 0;                    // words of launch.memory that engines compare
  std::string ptx;                           // what was lowered
};

// Compiles and lowers spec.source for spec's arguments and shape. Refusals come before anything runs:
//   kInvalidArgument  the source does not compile or parse; arguments do not fit the parameters; it does not fit the
//                     machine: "needs 37 machine blocks, the ROM holds 32" (registers, words, threads, grid likewise)
//   kUnimplemented    an instruction the machine's lowering does not support, by name, PTX line and CUDA line
//   others            as CompileCudaToPtx
// Deterministic; thread safe.
absl::StatusOr<LoweredKernel> CompileKernel(const LaunchSpec& spec);

// The same for a program that sees a source many times.
absl::StatusOr<LoweredKernel> CompileKernel(const LaunchSpec& spec, PtxCache& cache);

// The same from PTX text called `ptx_name` in messages, whatever spec.source says; `spec.kernel` is the .entry's name
// (empty: the only one). Arguments without names go by position; `parameter_names` are the names to match, or empty
// for the names of the .params.
absl::StatusOr<LoweredKernel> CompilePtxKernel(const std::string& ptx_name, const std::string& ptx,
                                               const LaunchSpec& spec,
                                               const std::vector<std::string>& parameter_names = {});

// The program as text: block, slot, instruction, PTX line, CUDA line and PTX text, one slot a line.
std::string Disassemble(const Program& program);

}  // namespace qgpu
