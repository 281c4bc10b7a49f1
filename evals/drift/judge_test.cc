// Probes by name, what each promises, and verdicts on rows.
#include "evals/drift/judge.h"

#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

DriftStatistics Of(std::vector<double> kl, double machine_share = 0) {
  DriftStatistics statistics;
  for (size_t i = 0; i < kl.size(); ++i) {
    RowDrift row;
    row.kl = kl[i];
    row.machine_share = machine_share;
    EXPECT_TRUE(statistics.Append("prose", static_cast<int64_t>(i), row).ok());
  }
  return statistics;
}

TEST(DriftProbe, NamesGoBothWays) {
  std::set<std::string> names;
  for (const DriftProbe& probe : AllDriftProbes()) {
    EXPECT_EQ(*DriftProbeFromName(probe.Name()), probe);
    names.insert(probe.Name());
  }
  EXPECT_THAT(names, testing::ElementsAre("dense-bfloat16", "dense-bfloat16-after-launch", "dense-float32",
                                          "dense-float32-after-launch", "split-bfloat16", "split-bfloat16-after-launch",
                                          "split-float32", "split-float32-after-launch"));
}

TEST(DriftProbe, AnUnknownNameIsAnsweredWithThoseThereAre) {
  for (const char* name : {"", "dense", "dense-float16", "Dense-float32", "dense-float32-after-launch-2"}) {
    const auto probe = DriftProbeFromName(name);
    EXPECT_TRUE(absl::IsInvalidArgument(probe.status()));
    EXPECT_THAT(std::string(probe.status().message()), HasSubstr("split-bfloat16-after-launch, dense-float32"));
  }
}

TEST(BoundOf, EveryProbe) {
  const auto bound = [](const char* name) { return BoundOf(DriftProbeFromName(name).value()); };
  EXPECT_EQ(bound("split-float32"), DriftBound::kExactlyZero);
  EXPECT_EQ(bound("split-bfloat16"), DriftBound::kExactlyZero);
  EXPECT_EQ(bound("split-float32-after-launch"), DriftBound::kExactlyZero);
  EXPECT_EQ(bound("split-bfloat16-after-launch"), DriftBound::kExactlyZero);
  EXPECT_EQ(bound("dense-float32"), DriftBound::kRounding);
  EXPECT_EQ(bound("dense-bfloat16"), DriftBound::kTimesNoiseFloor);
  EXPECT_EQ(bound("dense-float32-after-launch"), DriftBound::kNone);
  EXPECT_EQ(bound("dense-bfloat16-after-launch"), DriftBound::kNone);
}

TEST(JudgeDrift, ZeroMeansEveryPosition) {
  const DriftStatistics none;
  EXPECT_TRUE(JudgeDrift(Of({0, 0}), none, DriftBound::kExactlyZero).within);
  EXPECT_FALSE(JudgeDrift(Of({0, 1e-300}), none, DriftBound::kExactlyZero).within);
  EXPECT_FALSE(JudgeDrift(Of({0, -1e-17}), none, DriftBound::kExactlyZero).within);
  EXPECT_FALSE(JudgeDrift(Of({0, 0}, 1e-300), none, DriftBound::kExactlyZero).within);
  EXPECT_FALSE(JudgeDrift(none, none, DriftBound::kExactlyZero).within);
}

TEST(JudgeDrift, RoundingIsJudgedByTheMean) {
  EXPECT_TRUE(JudgeDrift(Of({0, 1.9e-9}), {}, DriftBound::kRounding).within);
  const DriftVerdict verdict = JudgeDrift(Of({0, 2.1e-9}), {}, DriftBound::kRounding);
  EXPECT_FALSE(verdict.within);
  EXPECT_THAT(verdict.text, HasSubstr("(is 1.050e-09): NOT MET"));
}

TEST(JudgeDrift, CoarseTypesAreJudgedByTheNoiseFloor) {
  const DriftStatistics noise = Of({1e-4, 3e-4});
  EXPECT_TRUE(JudgeDrift(Of({2e-4, 3.9e-4}), noise, DriftBound::kTimesNoiseFloor).within);
  EXPECT_FALSE(JudgeDrift(Of({2e-4, 4.1e-4}), noise, DriftBound::kTimesNoiseFloor).within);
  EXPECT_FALSE(JudgeDrift(Of({2e-4, 3e-4}), {}, DriftBound::kTimesNoiseFloor).within);
  EXPECT_FALSE(JudgeDrift(Of({2e-4}), noise, DriftBound::kTimesNoiseFloor).within) << "of other positions";
}

TEST(JudgeDrift, TheMachinesShareIsBoundedAtEveryPositionOfEveryProbe) {
  const DriftStatistics noise = Of({1, 1});
  for (const DriftBound bound : {DriftBound::kRounding, DriftBound::kTimesNoiseFloor, DriftBound::kNone}) {
    EXPECT_TRUE(JudgeDrift(Of({0, 0}, 0.99e-9), noise, bound).within);
    DriftStatistics one = Of({0});
    RowDrift row;
    row.machine_share = 1e-9;
    ASSERT_TRUE(one.Append("prose", 1, row).ok());
    const DriftVerdict verdict = JudgeDrift(one, noise, bound);
    EXPECT_FALSE(verdict.within);
    EXPECT_THAT(verdict.text, HasSubstr("share is 1.000e-09 at prose 1"));
  }
}

TEST(JudgeDrift, NumbersThatAreNoneAreNotWithin) {
  for (const DriftBound bound :
       {DriftBound::kExactlyZero, DriftBound::kRounding, DriftBound::kTimesNoiseFloor, DriftBound::kNone}) {
    EXPECT_FALSE(JudgeDrift(Of({NAN}), Of({1}), bound).within);
    EXPECT_FALSE(JudgeDrift(Of({0}, NAN), Of({1}), bound).within);
  }
}

}  // namespace
}  // namespace qgpu
