// The engines of `qgpu run` and `qgpu trace`: the model, the interpreter and native-cpu, each giving a LaunchResult.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "cli/launch_options.h"
#include "cli/launch_result.h"

namespace qgpu {

struct EngineOptions {
  std::string engine = "model";       // model, interpreter, native-cpu
  std::string circuit;                // what follows is the model's
  std::string executor = "sparse";    // sparse, torch
  std::string form = "split";         // split, dense
  std::string data_type = "float32";  // float32, bfloat16
  std::string base;                   // folder of the base model, for the dense form; empty: the embedded one
  bool check = true;

  bool runs_ptx() const { return engine == "native-cpu"; }
};

// Declares --engine, --circuit, --executor, --form, --dtype, --base and --[no-]check.
void AddEngineOptions(CLI::App& command, EngineOptions& options);

// The launch is lowered unless the engine is native-cpu, which runs the PTX itself. A trap, an exhausted
// budget or a mismatch is in the result, not an error; errors are the lowering's, and about the engine (no circuit, no
// base, an option that this build does not have).
absl::StatusOr<LaunchResult> RunOnEngine(const PreparedLaunch& launch, const EngineOptions& options);

// The same where the launch is lowered already.
absl::StatusOr<LaunchResult> RunOnMachine(const PreparedLaunch& launch, const LoweredKernel& lowered,
                                          const EngineOptions& options);

}  // namespace qgpu
