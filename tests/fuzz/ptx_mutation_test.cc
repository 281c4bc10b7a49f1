// PTX with random edits must never crash or hang what reads it. The seed of what it dies on is printed;
// QGPU_FUZZ_SEED starts at another one, QGPU_FUZZ_INPUTS asks for more.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/suite.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "tests/differential/random_kernels.h"
#include "tests/fuzz/mutate_ptx.h"
#include "tests/fuzz/ptx_target.h"

namespace qgpu {
namespace {

// Of processor time, for one input through all stages. They take milliseconds; a loaded machine may take longer.
constexpr double kMaxSeconds = 10;
constexpr uint64_t kNativeEvery = 8;  // compiling for this CPU is the slowest stage

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The input that is being read, for whoever the process dies on.
volatile uint64_t current_seed = 0;
void TellSeed(int signal) {
  char text[64];
  const int size =
      std::snprintf(text, sizeof(text), "died at QGPU_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(current_seed));
  if (write(2, text, static_cast<size_t>(size)) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// PTX of every kind: of clang, and of the random generator.
std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  PtxCache cache;
  for (const char* name : {"dot", "sum_shared", "sum_shuffle", "histogram", "is_prime", "n_queens_count", "caesar",
                           "count_if", "stream_compact", "cas_counter"}) {
    LaunchSpec spec;
    spec.source = {fmt::format("{}.cu", name), EmbeddedKernelSource(fmt::format("{}.cu", name)).value(),
                   SourceLanguage::kCuda};
    const absl::StatusOr<PtxSource> source = cache.Get(spec);
    EXPECT_TRUE(source.ok()) << source.status();
    if (source.ok()) corpus.push_back(source->ptx);
  }
  const RandomCudaFile file = RandomCuda(1, 6);
  for (const RandomKernel& kernel : file.kernels) {
    LaunchSpec spec;
    spec.source = {kernel.name + ".cu", file.prelude + kernel.text, SourceLanguage::kCuda};
    const absl::StatusOr<PtxSource> source = cache.Get(spec);
    EXPECT_TRUE(source.ok()) << source.status();
    if (source.ok()) corpus.push_back(source->ptx);
  }
  for (uint64_t seed = 1; seed <= 6; ++seed) corpus.push_back(RandomPtxSource(seed, 20));
  return corpus;
}

TEST(PtxMutations, NeitherCrashNorHang) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTERM}) std::signal(signal, TellSeed);
  const std::vector<std::string> corpus = Corpus();
  ASSERT_FALSE(HasFailure());
  for (const std::string& text : corpus) EXPECT_TRUE(FuzzPtx(text).parsed);
  const uint64_t first = NumberFromEnvironment("QGPU_FUZZ_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_FUZZ_INPUTS", 5000);
  int parsed = 0, lowered = 0, translated = 0;
  double slowest = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string text = MutatePtx(corpus[seed % corpus.size()], corpus[(seed / 7) % corpus.size()], seed);
    current_seed = seed;
    const double start = ProcessorSeconds();
    const PtxFuzzOutcome outcome = FuzzPtx(text, seed % kNativeEvery == 0);
    const double spent = ProcessorSeconds() - start;
    ASSERT_LT(spent, kMaxSeconds) << "QGPU_FUZZ_SEED=" << seed << "\n" << text;
    slowest = std::max(slowest, spent);
    parsed += outcome.parsed;
    lowered += outcome.lowered;
    translated += outcome.translated;
  }
  std::printf("%d of %d parse, %d are lowered, %d run natively; the slowest took %.2f s\n", parsed,
              static_cast<int>(count), lowered, translated, slowest);
  // The mutations reach every stage.
  EXPECT_GT(parsed, static_cast<int>(count / 20));
  EXPECT_GT(lowered, static_cast<int>(count / 100));
  EXPECT_GT(translated, 0);
}

TEST(PtxMutations, EqualSeedsGiveEqualText) {
  const std::string text = RandomPtxSource(1, 20), other = RandomPtxSource(2, 20);
  int different = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string once = MutatePtx(text, other, seed);
    EXPECT_EQ(once, MutatePtx(text, other, seed));
    EXPECT_LE(once.size(), 2 * text.size() + 1000);
    different += once != text;
  }
  EXPECT_GT(different, 80);
  MutatePtx("", "", 1);
}

}  // namespace
}  // namespace qgpu
