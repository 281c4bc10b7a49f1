// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): a small deterministic
// generator whose stream is the same on every machine and compiler, unlike the distributions of <random>.
#pragma once

#include <cstdint>

namespace qgpu {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint32_t Next32() { return static_cast<uint32_t>(Next() >> 32); }
  // Uniform in [0, bound), bound > 0; the bias of at most bound / 2^32 does not matter for tests and seeds.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>((uint64_t{Next32()} * bound) >> 32); }
  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace qgpu
