// One launch of every kernel of the suite with the trace it must give, for tests of whole models, where each position
// costs a pass through gigabytes.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {

struct SuiteTrace {
  std::string kernel, case_name;
  MachineLaunch launch;
  std::vector<Token> host, trace;  // what is fed, what the machine writes
};

// The first case of every kernel of suite "kernels". Errors of the lowering.
absl::StatusOr<std::vector<SuiteTrace>> FirstTraces();

// The demo: dot product of [1, 2, 3] and [4, 5, 6].
absl::StatusOr<SuiteTrace> DotDemo();

}  // namespace qgpu
