// Which kernels of the suites the machine runs: every case of a kernel is lowered and interpreted, and must leave the
// memory that plain C++ leaves. The kernels for which that cannot be yet are in one table, which must be exact.
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

// Kernels that the lowering refuses today, and what its refusal says. A kernel that is supported leaves the table.
const std::map<std::string, std::string>& NotSupportedYet() {
  static const std::map<std::string, std::string> table = {
      {"all_any_vote", "vote.sync.all.pred"},
      {"count_if", "bar.red.popc.u32"},
      {"edit_distance_small", "this address is neither proven nor checked"},
      {"inclusive_scan", "shfl.sync.up.b32"},
      {"min_reduce", "shfl.sync.bfly.b32"},
      {"stream_compact", "vote.sync.ballot.b32"},
      {"sum_shuffle", "shfl.sync.down.b32"},
  };
  return table;
}

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

TEST(KernelsLoweredTest, TheMachineRunsWhatItsTableDoesNotExcuse) {
  const absl::StatusOr<std::vector<KernelCase>> cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::map<std::string, std::set<std::string>> refusals;  // by kernel
  for (const KernelCase& kernel_case : *cases) {
    if (kernel_case.expect == KernelCase::Expect::kRefusal) continue;
    std::set<std::string>& of_kernel = refusals[kernel_case.kernel];
    const absl::StatusOr<LoweredKernel> lowered = Lower(kernel_case.spec);
    if (lowered.ok()) {
      EXPECT_EQ(Difference(kernel_case, *lowered), "") << kernel_case.Id();
    } else {
      of_kernel.insert(std::string(lowered.status().message()));
    }
  }
  for (const auto& [kernel, reason] : NotSupportedYet()) EXPECT_TRUE(refusals.contains(kernel)) << kernel;
  for (const auto& [kernel, messages] : refusals) {
    const auto excused = NotSupportedYet().find(kernel);
    if (excused == NotSupportedYet().end()) {
      EXPECT_THAT(messages, testing::IsEmpty()) << kernel << " is refused";
    } else {
      EXPECT_FALSE(messages.empty()) << kernel << " is supported now: remove it from the table";
      for (const std::string& message : messages) {
        EXPECT_THAT(message, testing::HasSubstr(excused->second)) << kernel;
      }
    }
  }
}

}  // namespace
}  // namespace qgpu
