#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/exit_code.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/select_cases.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<KernelSuite> TwoSuites() {
  std::vector<KernelSuite> suites(2);
  suites[0].name = "one";
  suites[1].name = "two";
  const std::pair<int, const char*> kernels[] = {{0, "dot"}, {0, "gcd"}, {1, "dot"}};
  for (const auto& [suite, kernel] : kernels) {
    for (const char* name : {"small", "large"}) {
      KernelCase& one = suites[suite].cases.emplace_back();
      one.suite = suites[suite].name;
      one.kernel = kernel;
      one.case_name = name;
    }
  }
  return suites;
}

std::vector<std::string> Names(const absl::StatusOr<std::vector<KernelCase>>& cases) {
  std::vector<std::string> names;
  if (!cases.ok()) return {std::string(cases.status().message())};
  for (const KernelCase& one : *cases) names.push_back(one.suite + ":" + one.Id());
  return names;
}

TEST(PickCasesTest, EverythingWithoutAFilter) { EXPECT_EQ(Names(PickCases(TwoSuites(), "", "", false)).size(), 6u); }

TEST(PickCasesTest, FiltersMatchKernelOrCase) {
  EXPECT_THAT(Names(PickCases(TwoSuites(), "gcd", "", false)), ElementsAre("one:gcd/small", "one:gcd/large"));
  EXPECT_THAT(Names(PickCases(TwoSuites(), "*/small", "", false)),
              ElementsAre("one:dot/small", "one:gcd/small", "two:dot/small"));
  EXPECT_THAT(Names(PickCases(TwoSuites(), "d?t/l*", "", false)), ElementsAre("one:dot/large", "two:dot/large"));
}

TEST(PickCasesTest, QuickTakesTheFirstSelectedCaseOfEveryKernel) {
  EXPECT_THAT(Names(PickCases(TwoSuites(), "", "", true)),
              ElementsAre("one:dot/small", "one:gcd/small", "two:dot/small"));
}

TEST(PickCasesTest, ListsAndTheirErrors) {
  EXPECT_THAT(Names(PickCases(TwoSuites(), "", " gcd/large \r\n# gcd/small\n", false)), ElementsAre("one:gcd/large"));
  EXPECT_THAT(Names(PickCases(TwoSuites(), "", "gcd/huge\n", false))[0], HasSubstr("no case is called \"gcd/huge\""));
  const auto nothing = PickCases(TwoSuites(), "none*", "", false);
  EXPECT_EQ(ExitCodeFor(nothing.status()), kExitUsage);
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("--filter none* matches no case"));
  EXPECT_EQ(ExitCodeFor(PickCases({}, "", "", false).status()), kExitUsage);
}

TEST(ReportTargetTest, FormatAndPath) {
  EXPECT_EQ(ParseReportTarget("html=a=b.html")->path, "a=b.html");
  for (const char* bad : {"", "html", "html=", "=x", "pdf=x"}) {
    EXPECT_EQ(ExitCodeFor(ParseReportTarget(bad).status()), kExitUsage) << bad;
  }
}

TEST(ProgressTest, SaysHowMuchIsLeft) {
  Progress progress;
  progress.total = 4;
  EXPECT_EQ(FormatProgress(progress), "0/4 launches, 0 tokens, 0 not passed, 0.0 s");
  progress.done = 1;
  progress.tokens = 50;
  progress.elapsed_ms = 1500;
  EXPECT_EQ(FormatProgress(progress), "1/4 launches, 50 tokens, 0 not passed, 1.5 s, about 4.5 s left");
  progress.done = 4;
  progress.not_passed = 2;
  EXPECT_EQ(FormatProgress(progress), "4/4 launches, 50 tokens, 2 not passed, 1.5 s");
}

}  // namespace
}  // namespace qgpu
