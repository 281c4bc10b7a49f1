// Random kernels for comparing engines: CUDA as somebody might write it, and PTX that no compiler would write (every
// supported operation with operands at its edges). Equal seeds give equal text. None of the kernels has a race: what
// they compute does not depend on the order in which threads run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/launch_spec.h"

namespace qgpu {

// What a kernel may use beside straight lines, branches, loops and loads; a set of bits.
enum RandomFeature : unsigned {
  kRandomShared = 1,     // shared memory with barriers, trees, atomics
  kRandomAtomics = 2,    // atomic operations on global memory whose effects commute
  kRandomWarp = 4,       // shuffles, votes and matches at uniform places
  kRandomWide = 8,       // 64-bit values
  kRandomDivision = 16,  // quotients and remainders, of zero too
  kRandomNarrow = 32,    // loads and stores of 8 and 16 bits
  kRandomLocal = 64,     // arrays of a thread's own
  kRandomConstant = 128,
  kRandomCalls = 256,  // functions that are not inlined
  kRandomSwitch = 512,
  kRandomFar = 1024,  // addresses that may lie outside of every buffer
};
inline constexpr int kRandomFeatures = 11;
const char* RandomFeatureName(int bit);

struct RandomKernel {
  std::string name;
  unsigned features = 0;
  std::string text;  // one statement a line; a line that ends in "//!" is needed by others
};

// A file of `kernels`, each with the parameters of RandomCudaLaunch, after what they share.
struct RandomCudaFile {
  std::string prelude;
  std::vector<RandomKernel> kernels;
  KernelSource source;  // all of it
};

// Kernels k0, k1, ... of `features` at most; each uses a few of them.
RandomCudaFile RandomCuda(uint64_t seed, int count, unsigned features = ~0u);

// (int* out, int* c, const int* a, const int* b, int n, int m) on random data and a random small shape.
LaunchSpec RandomCudaLaunch(uint64_t seed, const KernelSource& source, const std::string& kernel);

// A module with one kernel `k` of `instructions` random instructions, some of them predicated, branched over or in
// a loop.
std::string RandomPtxSource(uint64_t seed, int instructions);

// `ptx` with a few lines of its kernel's body deleted, doubled or exchanged.
std::string WithShuffledLines(const std::string& ptx, uint64_t seed);

// A launch of `kernel`: (int* out, const int* a, const int* b, int n, int m), likewise.
LaunchSpec RandomLaunch(uint64_t seed, const KernelSource& source, const std::string& kernel);

// Numbers that make arithmetic interesting.
int32_t RandomNumber(class SplitMix64& random);

}  // namespace qgpu
