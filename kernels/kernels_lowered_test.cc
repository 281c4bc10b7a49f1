// The machine runs every kernel of the suites: every case is lowered and interpreted, and must leave the memory that
// plain C++ leaves.
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

absl::StatusOr<LoweredKernel> Lower(const LaunchSpec& spec) {
  static PtxCache* cache = new PtxCache();
  return CompileKernel(spec, *cache);
}

// "" where the case ends as it must; otherwise what is wrong.
std::string Difference(const KernelCase& kernel_case, const LoweredKernel& lowered) {
  const MachineRun run = Interpret(lowered.launch, kernel_case.spec.token_budget);
  if (run.end == LaunchEnd::kBudget) return fmt::format("more than {} tokens", kernel_case.spec.token_budget);
  if (kernel_case.expect == KernelCase::Expect::kTrap) return run.end == LaunchEnd::kTrap ? "" : "no trap";
  if (run.end != LaunchEnd::kDone) return "a trap";
  const absl::StatusOr<MemoryImage> expected = ExpectedMemory(kernel_case);
  if (!expected.ok()) return expected.status().ToString();
  for (size_t i = 0; i < expected->size(); ++i) {
    if (run.state.memory[i] != (*expected)[i]) {
      return fmt::format("word {} is {}, not {}", i, run.state.memory[i], (*expected)[i]);
    }
  }
  return "";
}

TEST(KernelsLoweredTest, TheMachineRunsEveryCase) {
  const absl::StatusOr<std::vector<KernelCase>> cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  int compared = 0;
  for (const KernelCase& kernel_case : *cases) {
    if (kernel_case.expect == KernelCase::Expect::kRefusal) continue;
    const absl::StatusOr<LoweredKernel> lowered = Lower(kernel_case.spec);
    EXPECT_TRUE(lowered.ok()) << kernel_case.Id() << ": " << lowered.status();
    if (!lowered.ok()) continue;
    EXPECT_EQ(Difference(kernel_case, *lowered), "") << kernel_case.Id();
    ++compared;
  }
  EXPECT_GE(compared, 59 * 4);
}

}  // namespace
}  // namespace qgpu
