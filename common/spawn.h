// Starts a program as a child of this process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

// Descriptors of ours that become the child's.
struct ChildFiles {
  int in = -1;             // -1: nothing to read
  int out = -1, err = -1;  // -1: where ours go
};

// Starts `program` and returns its process id; whoever starts it waits for it. It is in a process group of its own: a
// Ctrl-C on the terminal is for us to handle, and kill(-id) reaches everything it starts. It blocks no signals,
// whatever this thread does, has no descriptors but `files`, and this process's environment with `settings`
// ("NAME=value") added or in the place of variables of the same name. kUnavailable "cannot start PROGRAM: why".
absl::StatusOr<pid_t> SpawnProgram(const std::string& program, const std::vector<std::string>& arguments,
                                   const std::vector<std::string>& settings, const ChildFiles& files);

}  // namespace qgpu
