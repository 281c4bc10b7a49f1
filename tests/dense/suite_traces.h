// Launches of the suites with the traces they must give, for tests of whole models, where each position costs a pass
// through gigabytes; and a few of them that together use everything.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/suite.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {

struct SuiteTrace {
  std::string kernel, case_name;
  MachineLaunch launch;
  std::vector<Token> host, trace;  // what is fed, what the machine writes
  LaunchEnd end = LaunchEnd::kDone;

  std::string Id() const { return kernel + "/" + case_name; }
};

// Every case of every suite that the lowering takes, in the suites' order; traps are among them.
absl::StatusOr<std::vector<SuiteTrace>> AllTraces();

// What a trace makes the machine do: operations that it runs, guards and operands of each kind, ends of blocks, kinds
// of tokens.
std::set<std::string> OperationsOf(const SuiteTrace& trace);

// A handful of `traces` that do together what all of them do; short ones before long ones. Deterministic.
std::vector<SuiteTrace> CoveringTraces(const std::vector<SuiteTrace>& traces);

// What tests of whole models run: the handful, or with QGPU_ALL_TRACES in the environment all of them.
absl::StatusOr<std::vector<SuiteTrace>> ChosenTraces();

// The demo: dot product of [1, 2, 3] and [4, 5, 6].
absl::StatusOr<SuiteTrace> DotDemo();

}  // namespace qgpu
