// Random kernels, lowered and interpreted, against native-cpu. A failure prints its seed, and for CUDA the smallest
// source that still fails; QGPU_RANDOM_SEED starts at another one, QGPU_RANDOM_KERNELS asks for more.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fmt/format.h"
#include "tests/differential/compare_engines.h"
#include "tests/differential/random_kernels.h"
#include "tests/differential/shrink.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Tally {
  int agreed = 0, refused = 0, trapped = 0, unused = 0;

  void Add(const Tally& other) {
    agreed += other.agreed;
    refused += other.refused;
    trapped += other.trapped;
    unused += other.unused;
  }
};

void Check(const LaunchSpec& spec, Tally& tally) {
  const Comparison comparison = CompareEngines(spec);
  if (comparison.refused) {
    const auto says = [&](const char* text) { return comparison.difference.find(text) != std::string::npos; };
    EXPECT_TRUE(says(" usable") || says("the ROM holds") || says("the memory holds"))  // too big is an answer
        << comparison.difference;
    ++tally.refused;
    return;
  }
  if (comparison.only_native_trapped) {  // a load whose value nothing uses: the machine does not have it
    ++tally.unused;
    return;
  }
  EXPECT_TRUE(comparison.difference.empty()) << comparison.difference.substr(0, comparison.difference.find('\n'));
  ++(comparison.machine_trapped ? tally.trapped : tally.agreed);
}

// What kernels of one feature came to.
void PrintFeatures(const Tally (&of_feature)[kRandomFeatures]) {
  for (int bit = 0; bit < kRandomFeatures; ++bit) {
    const Tally& tally = of_feature[bit];
    printf("  %-9s %d agree, %d trap in both, %d do not fit\n", RandomFeatureName(bit), tally.agreed, tally.trapped,
           tally.refused);
    EXPECT_GT(tally.agreed, tally.refused) << RandomFeatureName(bit);
    if (1u << bit == kRandomFar) {
      EXPECT_GT(tally.trapped, 0);
      EXPECT_LE(4 * tally.unused, 8 + tally.trapped);
    }
  }
}

bool Disagree(const LaunchSpec& spec) {
  const Comparison comparison = CompareEngines(spec);
  return comparison.Disagrees() && !comparison.only_native_trapped;
}

// The smallest launch found that fails like `spec`, for the message.
std::string Smallest(const LaunchSpec& spec, const RandomCudaFile& file, const RandomKernel& kernel) {
  if (!Disagree(spec)) return "";  // refused, or not even compiled
  const Shrunk shrunk = Shrink(spec, file.prelude, kernel.text, Disagree);
  return fmt::format("\nsmallest of {} tries:\n{}{}\n", shrunk.attempts, FormatLaunch(shrunk.spec),
                     CompareEngines(shrunk.spec).difference);
}

TEST(RandomDifferential, CudaKernels) {
  constexpr int kPerFile = 25;
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t files = (NumberFromEnvironment("QGPU_RANDOM_KERNELS", 300) + kPerFile - 1) / kPerFile;
  Tally all, of_feature[kRandomFeatures];
  for (uint64_t seed = first; seed < first + files; ++seed) {
    const RandomCudaFile file = RandomCuda(seed, kPerFile);
    for (size_t k = 0; k < file.kernels.size(); ++k) {
      const RandomKernel& kernel = file.kernels[k];
      SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={} kernel {}", seed, kernel.name));
      const LaunchSpec spec = RandomCudaLaunch(seed * kPerFile + k, file.source, kernel.name);
      Tally one;
      Check(spec, one);
      if (HasFailure()) FAIL() << kernel.text << Smallest(spec, file, kernel);
      all.Add(one);
      for (int bit = 0; bit < kRandomFeatures; ++bit) {
        if (kernel.features >> bit & 1) of_feature[bit].Add(one);
      }
    }
  }
  printf("%d agree, %d trap in both, %d on native-cpu only, %d do not fit\n", all.agreed, all.trapped, all.unused,
         all.refused);
  EXPECT_GT(all.agreed, all.refused);
  if (files * kPerFile >= 300) PrintFeatures(of_feature);
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
