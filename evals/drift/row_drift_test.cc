// One position against values worked out with 60 decimal digits, and what must hold exactly.
#include "evals/drift/row_drift.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

std::vector<float> RandomRow(size_t size, double scale, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> row(size);
  for (float& x : row) x = static_cast<float>(scale * (random.Uniform() - 0.5));
  return row;
}

TEST(RowDrift, IsWhatManyDigitsGive) {
  const std::vector<float> base = {1.5f, -0.25f, 3.125f, 0.0f, -7.5f, 2.75f};
  const std::vector<float> merged = {1.25f, 0.5f, 2.875f, 0.0625f, -6.0f, 3.0f, -1.0f, 0.75f};
  const RowDrift row = CompareRows(base, merged, 3).value();
  EXPECT_NEAR(row.kl, 0.0358460088170094972, 1e-15);
  EXPECT_NEAR(row.machine_share, 0.0534361098470040448, 1e-15);
  EXPECT_NEAR(row.base_surprise, 3.7991581786292260469, 1e-14);
  EXPECT_NEAR(row.merged_surprise, 3.7769926976206184420, 1e-14);
  EXPECT_FALSE(row.same_top);     // 2 and 5
  EXPECT_EQ(row.top_overlap, 5);  // all but 4
}

// By hand: a half each against a quarter and three quarters: log 2 - log(3) / 2 = 0.1438.
TEST(RowDrift, TwoTokens) {
  const std::vector<float> base = {5, 5}, merged = {0, std::log(3.0f)};
  const RowDrift row = CompareRows(base, merged, 1).value();
  EXPECT_NEAR(row.kl, std::log(2.0) - std::log(3.0) / 2, 1e-7);  // log(3) is a float here
  EXPECT_NEAR(row.base_surprise, std::log(2.0), 1e-15);
  EXPECT_NEAR(row.merged_surprise, -std::log(0.75), 1e-7);
  EXPECT_EQ(row.machine_share, 0);
  EXPECT_EQ(row.top_overlap, 2);
}

TEST(RowDrift, ATinyDifferenceIsNotLostInRounding) {
  const std::vector<float> base = {10, 11, 12, 13}, merged = {10, 11, 12, 13.000000953674316f};
  EXPECT_NEAR(CompareRows(base, merged, 0)->kl, 1.0426841291581854e-13, 2e-15);
}

TEST(RowDrift, BaseAgainstItselfIsExactlyZero) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> row = RandomRow(1000, seed % 2 == 0 ? 30 : 1e30, seed);
    std::vector<float> with_machine = row;
    with_machine.insert(with_machine.end(), 100, row[7]);
    for (const auto& merged : {row, with_machine}) {
      const RowDrift drift = CompareRows(row, merged, 5).value();
      EXPECT_EQ(drift.kl, 0);
      EXPECT_TRUE(drift.same_top);
      EXPECT_EQ(drift.top_overlap, kTopOverlap);
      if (merged.size() == row.size()) {
        EXPECT_EQ(drift.base_surprise, drift.merged_surprise);
      }
    }
  }
}

TEST(RowDrift, AConstantAddedToAllLogitsChangesNothing) {
  const std::vector<float> base = {1, 2, 4, 8}, merged = {257, 258, 260, 264};
  EXPECT_EQ(CompareRows(base, merged, 2)->kl, 0);
}

TEST(RowDrift, MachineIdsFromNothingToEverything) {
  const std::vector<float> base = {0, 0};
  EXPECT_EQ(CompareRows(base, std::vector<float>{0, 0, -1e30f}, 0)->machine_share, 0);
  EXPECT_NEAR(CompareRows(base, std::vector<float>{0, 0, 0, 0, 0, 0}, 0)->machine_share, 2.0 / 3, 1e-15);
  const RowDrift all = CompareRows(base, std::vector<float>{0, 0, 1e30f}, 0).value();
  EXPECT_EQ(all.machine_share, 1);
  EXPECT_EQ(all.kl, 0);  // among the base's ids nothing changed
  EXPECT_NEAR(all.merged_surprise, 1e30, 1e24);
}

TEST(RowDrift, HugeLogitsStayNumbers) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> base = {most, -most, 0}, merged = {-most, most, 0};
  const RowDrift row = CompareRows(base, merged, 2).value();
  EXPECT_NEAR(row.kl / most, 2, 1e-6);
  EXPECT_TRUE(std::isfinite(row.merged_surprise));
}

TEST(RowDrift, OfEquallyLikelyTokensTheLowestIsFirst) {
  const std::vector<float> base = {1, 3, 3, 0}, merged = {1, 2, 2, 0}, other = {1, 2, 3, 0};
  EXPECT_TRUE(CompareRows(base, merged, 0)->same_top);
  EXPECT_FALSE(CompareRows(base, other, 0)->same_top);
}

TEST(RowDrift, TopFiveByOrderNotByPlace) {
  const std::vector<float> base = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, reversed = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                           swapped = {5, 6, 7, 8, 3, 9, 2, 1, 0, -1};  // 0 1 2 3 5
  EXPECT_EQ(CompareRows(base, reversed, 0)->top_overlap, 0);
  EXPECT_EQ(CompareRows(base, swapped, 0)->top_overlap, 4);
}

TEST(RowDrift, SaysWhatIsWrong) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> good = {1, 2, 3};
  const auto in_base = CompareRows(std::vector<float>{1, nan, 3}, good, 0);
  EXPECT_TRUE(absl::IsDataLoss(in_base.status()));
  EXPECT_THAT(std::string(in_base.status().message()), HasSubstr("base model's logit of id 1 is nan"));
  const auto in_merged = CompareRows(good, std::vector<float>{1, 2, 3, -inf}, 0);
  EXPECT_TRUE(absl::IsDataLoss(in_merged.status()));
  EXPECT_THAT(std::string(in_merged.status().message()), HasSubstr("merged model's logit of id 3 is -inf"));
  for (const int64_t id : {int64_t{-1}, int64_t{3}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CompareRows(good, good, id).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CompareRows(good, std::vector<float>{1, 2}, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CompareRows({}, {}, 0).status()));
}

}  // namespace
}  // namespace qgpu
