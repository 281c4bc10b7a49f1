// Runs one launch on the interpreter, through the machine's lowering, and on native-cpu, and compares what is left in
// memory.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/launch_spec.h"

namespace qgpu {

struct Comparison {
  std::string difference;  // "" where the engines agree; otherwise who differs, where, and the program
  bool refused = false;    // the machine's lowering refused the kernel (then `difference` is the refusal)
  bool machine_trapped = false;
  bool only_native_trapped = false;  // a difference, unless the trap is that of a load whose value nothing uses
  int64_t tokens = 0, passes = 0;    // of the interpreter
};

// CUDA sources are compiled once per text.
Comparison CompareEngines(const LaunchSpec& spec);

}  // namespace qgpu
