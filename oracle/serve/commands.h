// What a person can ask qgpu-oracle for, beside being a server.
#pragma once

#include <string>

#include "common/status.h"
#include "kernels/suite.h"
#include "oracle/serve/engine_set.h"

namespace qgpu {

struct RunCommandOptions {
  std::string file;               // .cu or .ptx
  std::string launch;             // a launch description; empty: one thread, no arguments
  std::string engine = "native";  // or an engine's name; native: the one that answers
  int time_limit_s = 10;
};

// One launch, as JSON on stdout. The exit code: 0 done, 1 a trap or a limit, 2 refused or not run, 4 a crash.
absl::StatusOr<int> RunCommand(EngineSet& engines, const RunCommandOptions& options);

struct RecordCommandOptions {
  std::string suite = "kernels";  // its name or file
  std::string out;
  int time_limit_s = 10;
};

// Runs every launch of the suite that ends with a result on native-cuda and writes a golden file. A launch that does
// not end well is named on stderr and left out; then the exit code is 1.
absl::StatusOr<int> RecordCommand(EngineSet& engines, const KernelSuite& suite, const RecordCommandOptions& options);

// The engines as JSON on stdout: name, witness, why one cannot run, which one answers.
int EnginesCommand(const EngineSet& engines);

}  // namespace qgpu
