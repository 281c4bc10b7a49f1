// Random kernels for comparing engines: CUDA as somebody might write it (straight lines, branches, loops), and PTX that
// no compiler would write (every supported operation with operands at its edges). Equal seeds give equal text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/launch_spec.h"

namespace qgpu {

// One source file with `count` kernels k0, k1, ..., each with the parameters of RandomLaunch.
std::string RandomCudaSource(uint64_t seed, int count);

// A module with one kernel `k` of `instructions` random instructions, some of them predicated, branched over or in
// a loop.
std::string RandomPtxSource(uint64_t seed, int instructions);

// `ptx` with a few lines of its kernel's body deleted, doubled or exchanged.
std::string WithShuffledLines(const std::string& ptx, uint64_t seed);

// A launch of `kernel`: (int* out, const int* a, const int* b, int n, int m) on random data and a random small shape.
LaunchSpec RandomLaunch(uint64_t seed, const KernelSource& source, const std::string& kernel);

}  // namespace qgpu
