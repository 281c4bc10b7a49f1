// Every case of the kernel suites, lowered and interpreted, against native-cpu: the whole memory image.
#include <gtest/gtest.h>

#include <map>

#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

struct Totals {
  int64_t tokens = 0, passes = 0;
};

// Compares the cases of a suite that are expected to give a result; returns how many were compared.
int CompareSuite(const std::string& suite_name) {
  const absl::StatusOr<KernelSuite> suite = LoadSuite(suite_name);
  EXPECT_TRUE(suite.ok()) << suite.status();
  if (!suite.ok()) return 0;
  std::map<std::string, Totals> totals;
  int compared = 0;
  for (const KernelCase& item : suite->cases) {
    SCOPED_TRACE(item.Id());
    if (item.expect != KernelCase::Expect::kResult) continue;
    const Comparison comparison = CompareEngines(item.spec);
    Totals& of_kernel = totals[item.kernel];
    EXPECT_EQ(comparison.difference, "");
    of_kernel.tokens += comparison.tokens;
    of_kernel.passes += comparison.passes;
    ++compared;
  }
  for (const auto& [kernel, total] : totals) {
    printf("%-20s %6ld tokens %6ld passes in all its cases\n", kernel.c_str(), static_cast<long>(total.tokens),
           static_cast<long>(total.passes));
  }
  return compared;
}

TEST(KernelsDifferential, EveryCaseOfTheSuitesAgrees) {
  EXPECT_GE(CompareSuite("kernels"), 49 * 4);
  EXPECT_GE(CompareSuite("extra"), 10 * 4);
}

TEST(KernelsDifferential, DotDemoTakesFewTokens) {
  const absl::StatusOr<KernelSuite> suite = LoadSuite("kernels");
  ASSERT_TRUE(suite.ok()) << suite.status();
  for (const KernelCase& item : suite->cases) {
    if (item.Id() == "dot/demo") {
      EXPECT_LE(CompareEngines(item.spec).tokens, 22);
    }
  }
}

TEST(KernelsDifferential, TrapsAndRefusalsAsTheSuiteExpects) {
  const absl::StatusOr<KernelSuite> suite = LoadSuite("kernels");
  ASSERT_TRUE(suite.ok()) << suite.status();
  for (const KernelCase& item : suite->cases) {
    if (item.expect == KernelCase::Expect::kResult) continue;
    SCOPED_TRACE(item.Id());
    const absl::StatusOr<LoweredKernel> lowered = CompileKernel(item.spec);
    if (item.expect == KernelCase::Expect::kRefusal) {
      ASSERT_FALSE(lowered.ok());
      EXPECT_NE(std::string(lowered.status().message()).find(item.expect_text), std::string::npos) << lowered.status();
      continue;
    }
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(Interpret(lowered->launch, item.spec.token_budget).end, LaunchEnd::kTrap);
  }
}

}  // namespace
}  // namespace qgpu
