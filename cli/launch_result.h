// What a launch gave, whichever engine ran it, as `qgpu run` prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch_options.h"
#include "kernels/launch_spec.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {

// Every position of the trace against the interpreter's, and the final memory and registers.
struct CheckSummary {
  int64_t positions = 0;
  int64_t mismatches = 0;
  bool exact = true;  // no mismatch, and memory and registers are equal too
  std::string first;  // the first difference, for people; empty when exact
};

struct LaunchResult {
  std::string engine;   // "model (sparse split float32)", "interpreter", "native-cpu"
  std::string circuit;  // its hash; empty for engines without one
  LaunchEnd end = LaunchEnd::kDone;
  std::string message;        // what went wrong, for any other end
  MemoryImage memory;         // words of the arena
  std::vector<Token> tokens;  // written by the machine; none for native-cpu
  int64_t passes = 0;
  std::optional<CheckSummary> check;
  absl::Status fault;  // kDataLoss when the model wrote what no machine writes, or left cells that hold no bits
};

// A buffer that is shown: the declared outputs, or every buffer where none is declared.
struct ShownBuffer {
  std::string name;
  Bytes bytes;
  bool is_raw = false;  // shown as bytes, not as words
};

std::vector<ShownBuffer> Outputs(const PreparedLaunch& launch, const LaunchResult& result);

// Output buffers one a line, "out = 5 7 9" or "out = bytes 0a0b0c", where the launch came to its end, then tokens,
// passes and check in any case. Words are shown as signed numbers.
std::string FormatResult(const PreparedLaunch& launch, const LaunchResult& result);

// {"schema_version": 1, "kernel": ..., "engine": ..., "end": "done", "outputs": {"out": [5, 7, 9]}, "tokens": 20, ...};
// raw outputs are strings of hexadecimal digits.
std::string ResultToJson(const PreparedLaunch& launch, const LaunchResult& result);

// The outputs' bytes, in files NAME.bin of the folder `path`, or the only output's in the file `path`.
absl::Status WriteOutputs(const std::string& path, const PreparedLaunch& launch, const LaunchResult& result);

// kDataLoss for a fault or when the check found a difference, kAborted for a trap or an exhausted budget, with the
// message; OK otherwise.
absl::Status ResultStatus(const LaunchResult& result);

}  // namespace qgpu
