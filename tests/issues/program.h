// Runs the built programs as a person would, and gives back what they said.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace qgpu {

struct ProgramRun {
  int exit_code = -1;  // 128 + signal where one ended it
  std::string out, err;
};

// Runs build/bin/`program` in `directory` with `environment` added to ours, no standard input, at most `timeout_s`
// seconds (then SIGALRM ends it and the exit code is 142).
ProgramRun RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                      const std::string& directory,
                      const std::vector<std::pair<std::string, std::string>>& environment = {}, int timeout_s = 120);

// The circuit that was built beside the programs.
std::string BuiltCircuit();

}  // namespace qgpu
