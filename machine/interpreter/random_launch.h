// Random programs for tests: every op, source, guard and kind of control flow, mostly in range. For comparing engines.
#pragma once

#include "machine/isa/machine_launch.h"

namespace qgpu {

// Deterministic in `seed`; always passes ValidateLaunch. May trap, and may never end (run it with a budget).
MachineLaunch RandomLaunch(uint64_t seed);

}  // namespace qgpu
