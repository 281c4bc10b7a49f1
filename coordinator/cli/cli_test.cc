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

std::vector<CaseName> TwoSuites() {
  std::vector<CaseName> cases;
  const std::pair<const char*, const char*> groups[] = {{"one", "dot"}, {"one", "gcd"}, {"two", "dot"}};
  for (const auto& [suite, group] : groups) {
    for (const char* name : {"small", "large"}) cases.push_back({SuiteKind::kKernels, suite, group, name, ""});
  }
  return cases;
}

std::vector<std::string> Names(const absl::StatusOr<std::vector<size_t>>& picked) {
  std::vector<std::string> names;
  if (!picked.ok()) return {std::string(picked.status().message())};
  for (const size_t i : *picked) names.push_back(TwoSuites()[i].suite + ":" + TwoSuites()[i].Id());
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

std::vector<std::string> Selected(const RunSuiteOptions& options) {
  const auto selected = SelectCases(options);
  if (!selected.ok()) return {std::string(selected.status().message())};
  std::vector<std::string> ids;
  for (const auto& one : selected->cases) ids.push_back(one->name().suite + " " + one->name().Id());
  return ids;
}

TEST(SelectCasesTest, TheDriftSuiteHasEveryTextThroughEveryProbeProbeByProbe) {
  RunSuiteOptions options;
  options.suites = {"drift"};
  options.drift_texts = {"code", "prose"};
  EXPECT_THAT(
      Selected(options),
      ElementsAre("drift split-float32/code", "drift split-float32/prose",  //
                  "drift split-float32-after-launch/code", "drift split-float32-after-launch/prose",
                  "drift split-bfloat16/code", "drift split-bfloat16/prose",  //
                  "drift dense-float32/code", "drift dense-float32/prose", "drift dense-float32-after-launch/code",
                  "drift dense-float32-after-launch/prose", "drift dense-bfloat16/code", "drift dense-bfloat16/prose"));
  options.drift_probes = {"all"};
  EXPECT_EQ(Selected(options).size(), 16u);
  options.filter = "dense-*-after-launch/prose";
  EXPECT_THAT(Selected(options),
              ElementsAre("drift dense-float32-after-launch/prose", "drift dense-bfloat16-after-launch/prose"));
  options.filter = "split-bfloat16";
  options.quick = true;
  EXPECT_THAT(Selected(options), ElementsAre("drift split-bfloat16/code"));
  options.drift_probes = {"dense"};
  EXPECT_THAT(Selected(options)[0], HasSubstr("no drift probe is called \"dense\""));
  options.drift_probes = {"all"};
  options.drift_texts = {"no_such_text"};
  EXPECT_THAT(Selected(options)[0], HasSubstr("neither a shipped text"));
  options.suites = {"drfit"};
  EXPECT_THAT(Selected(options)[0], HasSubstr("there are: drift, extra, kernels;"));
}

TEST(SelectCasesTest, BothKindsTogetherAndSuitesWithoutACaseLeftOut) {
  RunSuiteOptions options;
  options.quick = true;
  const auto both = SelectCases(options);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->cases.size(), 49u + 6u);
  ASSERT_EQ(both->suites.size(), 2u);
  EXPECT_EQ(both->suites[0].kind, SuiteKind::kKernels);
  EXPECT_EQ(both->suites[1].kind, SuiteKind::kDrift);
  options.filter = "dot/*";
  const auto kernels = SelectCases(options);
  ASSERT_EQ(kernels->suites.size(), 1u);
  EXPECT_EQ(kernels->suites[0].name, "kernels");
  options.suites = {"drift", "drift"};
  EXPECT_THAT(Selected(options)[0], HasSubstr("suite drift is named twice"));
}

// A hash is what makes figures of two runs comparable.
TEST(SelectCasesTest, ACaseHashCoversTextPositionsAndChunk) {
  RunSuiteOptions options;
  options.suites = {"drift"};
  options.drift_texts = {"prose"};
  const auto first = SelectCases(options);
  RunSuiteOptions positions = options, chunk = options, same = options;
  positions.drift_positions = 64;
  chunk.drift_chunk = 32;
  same.drift_limit_s = 1;
  for (const RunSuiteOptions& other : {positions, chunk}) {
    const auto second = SelectCases(other);
    EXPECT_NE(first->cases[0]->name().hash, second->cases[0]->name().hash);
    EXPECT_NE(first->suites[0].hash, second->suites[0].hash);
  }
  EXPECT_EQ(first->suites[0].hash, SelectCases(same)->suites[0].hash);
  EXPECT_NE(first->cases[0]->name().hash, first->cases[1]->name().hash);
}

// What a run is taken up with: its own arguments, and on top of them what is given now.
TEST(ParseRunSuiteArgumentsTest, LaterArgumentsReplaceOnlyWhatTheyGive) {
  RunSuiteOptions options;
  ASSERT_TRUE(ParseRunSuiteArguments({"drift", "--drift-texts", "prose,code", "--node", "a:1", "--quick",
                                      "--drift-positions=32", "--no-check"},
                                     options)
                  .ok());
  ASSERT_TRUE(ParseRunSuiteArguments({"--resume", "3", "--node", "b:2"}, options).ok());
  EXPECT_THAT(options.suites, ElementsAre("drift"));
  EXPECT_THAT(options.drift_texts, ElementsAre("prose", "code"));
  EXPECT_THAT(options.nodes, ElementsAre("b:2"));
  EXPECT_TRUE(options.quick);
  EXPECT_FALSE(options.check);
  EXPECT_EQ(options.drift_positions, 32);
  EXPECT_EQ(options.resume, 3);
  EXPECT_EQ(ExitCodeFor(ParseRunSuiteArguments({"--no-such-flag"}, options)), kExitUsage);
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
  EXPECT_EQ(FormatProgress(progress), "0/4 items, 0 tokens, 0 not passed, 0.0 s");
  progress.done = 1;
  progress.tokens = 50;
  progress.elapsed_ms = 1500;
  EXPECT_EQ(FormatProgress(progress), "1/4 items, 50 tokens, 0 not passed, 1.5 s, about 4.5 s left");
  progress.done = 4;
  progress.not_passed = 2;
  progress.positions = 7;
  EXPECT_EQ(FormatProgress(progress), "4/4 items, 50 tokens, 7 positions, 2 not passed, 1.5 s");
}

TEST(ProgressTest, WhatWasDoneBeforeSaysNothingOfTheTimeThatIsLeft) {
  Progress progress;
  progress.total = 100;
  progress.done = progress.done_before = 90;
  progress.elapsed_ms = 1000;
  EXPECT_EQ(FormatProgress(progress), "90/100 items, 0 tokens, 0 not passed, 1.0 s");
  progress.done = 92;
  EXPECT_EQ(FormatProgress(progress), "92/100 items, 0 tokens, 0 not passed, 1.0 s, about 4.0 s left");
}

}  // namespace
}  // namespace qgpu
