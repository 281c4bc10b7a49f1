// The options of every subcommand that takes a kernel and its arguments, and the way from them to machine blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "common/status.h"
#include "kernels/launch_spec.h"
#include "lowering/compile.h"

namespace qgpu {

struct LaunchOptions {
  std::string file;                    // .cu or .ptx
  std::vector<std::string> arguments;  // as typed, see arguments.h
  std::string kernel;
  std::string grid, block;  // as typed; empty: the defaults
  int64_t token_budget = 20000;
};

// Declares FILE, --arg, --kernel, --grid, --block and --budget.
void AddLaunchOptions(CLI::App& command, LaunchOptions& options);

// A launch, described in CUDA's terms and lowered.
struct PreparedLaunch {
  LaunchSpec spec;
  LoweredKernel lowered;
};

// Reads the file, finds the kernel, binds the arguments to its parameters and lowers it for them. Errors as
// CompileKernel, and kInvalidArgument for what was typed.
absl::StatusOr<PreparedLaunch> PrepareLaunch(const LaunchOptions& options);

}  // namespace qgpu
