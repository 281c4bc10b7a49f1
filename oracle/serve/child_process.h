// A child that is only killed, not confined: for what needs the machine's devices and the environment.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

struct ChildOutcome {
  enum class End { kExited, kSignal, kWallTime };
  End end = End::kExited;
  int code = 0;          // exit status, or the signal's number
  std::string messages;  // stdout and stderr together, at most 32 KiB
};

// Runs `program` to its end, or until `wall_ms` have passed, when it is killed with everything it started. It has this
// process's environment with `settings` ("NAME=value") added, no input, and no descriptors of ours.
// kUnavailable when it could not be started.
absl::StatusOr<ChildOutcome> RunChild(const std::string& program, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& settings, int wall_ms);

// The child's side, before anything else: it ends with its parent and dumps no core.
void EndWithParent();

}  // namespace qgpu
