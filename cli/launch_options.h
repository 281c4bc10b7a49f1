// The options of every subcommand that takes a kernel and its arguments, and the way from them to machine blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "common/status.h"
#include "kernels/launch_spec.h"
#include "lowering/compile.h"

namespace qgpu {

struct LaunchOptions {
  std::string file;                    // .cu or .ptx
  std::string launch;                  // a launch description (docs/formats/launch.md); empty: what follows
  std::vector<std::string> arguments;  // as typed, see arguments.h
  // As typed; what is given takes the place of what the launch description says.
  std::string kernel, grid, block;
  std::optional<uint32_t> dynamic_shared_bytes;
  std::optional<int64_t> token_budget;
};

// Declares FILE, --launch, --arg, --kernel, --grid, --block, --dynamic-shared and --budget.
void AddLaunchOptions(CLI::App& command, LaunchOptions& options);

// A launch described in CUDA's terms, its kernel as PTX.
struct PreparedLaunch {
  LaunchSpec spec;     // `kernel` is the entry's name in the PTX; the arguments are in parameter order, named
  std::string kernel;  // as the user knows it
  std::string ptx_name, ptx;
  std::vector<std::string> parameter_names;
  Arena arena;
  std::vector<std::string> assumed;  // "--arg n=8" for each argument that PrepareLaunch made up
};

enum class MissingArguments { kAreErrors, kAreAssumed };

// Reads the file, finds the kernel and binds the arguments to its parameters. kInvalidArgument for what was typed,
// otherwise as CompileKernel. Missing arguments may be assumed: 8 zero words for a pointer, 8 for a number,
// zeros for a struct.
absl::StatusOr<PreparedLaunch> PrepareLaunch(const LaunchOptions& options,
                                             MissingArguments missing = MissingArguments::kAreErrors);

// The launch for the machine: errors of CompilePtxKernel.
absl::StatusOr<LoweredKernel> LowerLaunch(const PreparedLaunch& launch);

}  // namespace qgpu
