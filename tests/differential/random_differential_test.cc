// Random kernels, lowered and interpreted, against native-cpu. A failure prints its seed; QGPU_RANDOM_SEED starts at
// another one, QGPU_RANDOM_KERNELS asks for more.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fmt/format.h"
#include "tests/differential/compare_engines.h"
#include "tests/differential/random_kernels.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Tally {
  int agreed = 0, refused = 0, trapped = 0;
};

void Check(const LaunchSpec& spec, Tally& tally) {
  const Comparison comparison = CompareEngines(spec);
  if (comparison.refused) {
    // Too big for the machine is an answer; so is 64-bit arithmetic, which LLVM likes for the sums of loops.
    const auto says = [&](const char* text) { return comparison.difference.find(text) != std::string::npos; };
    EXPECT_TRUE(says(" usable") || says("the ROM holds") || says("64-bit value"))
        << comparison.difference << spec.source.text;
    ++tally.refused;
    return;
  }
  EXPECT_EQ(comparison.difference, "");
  ++(comparison.machine_trapped ? tally.trapped : tally.agreed);
}

TEST(RandomDifferential, CudaKernels) {
  constexpr int kPerFile = 25;
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t files = (NumberFromEnvironment("QGPU_RANDOM_KERNELS", 200) + kPerFile - 1) / kPerFile;
  Tally tally;
  for (uint64_t seed = first; seed < first + files; ++seed) {
    const KernelSource source{fmt::format("random{}.cu", seed), RandomCudaSource(seed, kPerFile),
                              SourceLanguage::kCuda};
    for (int k = 0; k < kPerFile; ++k) {
      SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={} kernel k{}", seed, k));
      Check(RandomLaunch(seed * kPerFile + k, source, fmt::format("k{}", k)), tally);
      if (HasFailure()) return;
    }
  }
  printf("%d agree, %d trap in both, %d do not fit\n", tally.agreed, tally.trapped, tally.refused);
  EXPECT_GT(tally.agreed, tally.refused);
}

// Lines of a random kernel deleted, doubled and exchanged: whatever that means, it is refused or means the same to
// both.
TEST(RandomDifferential, ShuffledPtx) {
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_RANDOM_KERNELS", 200);
  int compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={}", seed));
    const std::string text = WithShuffledLines(RandomPtxSource(seed, 12), seed);
    LaunchSpec spec = RandomLaunch(seed, {fmt::format("shuffled{}.ptx", seed), text, SourceLanguage::kPtx}, "k");
    spec.token_budget = 5000;
    spec.grid = spec.block = {1, 1, 1};  // threads might write the same words
    const Comparison comparison = CompareEngines(spec);
    if (comparison.refused || comparison.only_native_trapped) continue;  // a lost line leaves loads without a use
    EXPECT_EQ(comparison.difference, "");
    if (HasFailure()) return;
    ++compared;
  }
  printf("%d of %d could be compared\n", compared, static_cast<int>(count));
  EXPECT_GT(compared, static_cast<int>(count / 10));
}

TEST(RandomDifferential, PtxInstructions) {
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_RANDOM_KERNELS", 300);
  Tally tally;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={}", seed));
    const KernelSource source{fmt::format("random{}.ptx", seed), RandomPtxSource(seed, 2 + static_cast<int>(seed % 30)),
                              SourceLanguage::kPtx};
    Check(RandomLaunch(seed, source, "k"), tally);
    if (HasFailure()) return;
  }
  printf("%d agree, %d trap in both, %d do not fit\n", tally.agreed, tally.trapped, tally.refused);
  EXPECT_GT(tally.agreed, tally.refused);
}

}  // namespace
}  // namespace qgpu
