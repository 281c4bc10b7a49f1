// Runs one launch on the interpreter, through the machine's lowering, and on native-cpu, and compares what is left in
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/launch_spec.h"
#include "machine/isa/isa.h"

namespace qgpu {

struct Comparison {
  std::string difference;  // "" where the engines agree; otherwise who differs, where, and the program
  bool compiled = false;   // otherwise `difference` is what the compiler says
  bool refused = false;    // the machine's lowering refused the kernel (then `difference` is the refusal)
  bool machine_trapped = false;
  bool only_native_trapped = false;  // a difference, unless the trap is that of a load whose value nothing uses
  int64_t tokens = 0, passes = 0;    // of the interpreter

  // Both engines ran the kernel, or one could not, and they differ.
  bool Disagrees() const { return compiled && !refused && !difference.empty(); }
};

// CUDA sources are compiled once per text. `change` is done to the program before it is interpreted: an engine that is
// wrong on purpose.
Comparison CompareEngines(const LaunchSpec& spec, const std::function<void(Program&)>& change = nullptr);

}  // namespace qgpu
