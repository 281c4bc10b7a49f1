// Every case of the kernel suites, lowered and interpreted, against native-cpu: the whole memory image.
#include <gtest/gtest.h>

#include <map>

#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

TEST(KernelsDifferential, EveryCaseAgrees) {
  int cases = 0;
  for (const std::string& suite_name : EmbeddedSuiteNames()) {
    const absl::StatusOr<KernelSuite> suite = LoadSuite(suite_name);
    ASSERT_TRUE(suite.ok()) << suite.status();
    std::map<std::string, int64_t> tokens, passes;
    for (const KernelCase& item : suite->cases) {
      SCOPED_TRACE(item.Id());
      if (item.expect != KernelCase::Expect::kResult) continue;
      const Comparison comparison = CompareEngines(item.spec);
      EXPECT_EQ(comparison.difference, "");
      tokens[item.kernel] += comparison.tokens;
      passes[item.kernel] += comparison.passes;
      ++cases;
    }
    for (const auto& [kernel, count] : tokens) {
      printf("%-16s %6ld tokens %6ld passes in all its cases\n", kernel.c_str(), static_cast<long>(count),
             static_cast<long>(passes[kernel]));
    }
  }
  EXPECT_GE(cases, 36);
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

TEST(KernelsDifferential, TrapsAndRefusalsAsTheSuitesExpect) {
  for (const std::string& suite_name : EmbeddedSuiteNames()) {
    const absl::StatusOr<KernelSuite> suite = LoadSuite(suite_name);
    ASSERT_TRUE(suite.ok()) << suite.status();
    for (const KernelCase& item : suite->cases) {
      if (item.expect == KernelCase::Expect::kResult) continue;
      SCOPED_TRACE(item.Id());
      const absl::StatusOr<LoweredKernel> lowered = CompileKernel(item.spec);
      if (item.expect == KernelCase::Expect::kRefusal) {
        ASSERT_FALSE(lowered.ok());
        EXPECT_NE(std::string(lowered.status().message()).find(item.expect_text), std::string::npos)
            << lowered.status();
        continue;
      }
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      EXPECT_EQ(Interpret(lowered->launch, item.spec.token_budget).end, LaunchEnd::kTrap);
    }
  }
}

}  // namespace
}  // namespace qgpu
