// What is said of all positions, in one go, in parts, and through JSON.
#include "evals/drift/statistics.h"

#include <cmath>

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using nlohmann::json;
using testing::HasSubstr;

RowDrift Row(double kl) {
  RowDrift row;
  row.kl = kl;
  return row;
}

RowDrift RandomRow(SplitMix64& random) {
  RowDrift row;
  row.kl = random.Uniform() * 1e-12;
  row.machine_share = random.Uniform();
  row.base_surprise = 10 * random.Uniform();
  row.merged_surprise = 10 * random.Uniform();
  row.same_top = random.Below(2) == 1;
  row.top_overlap = static_cast<int>(random.Below(kTopOverlap + 1));
  return row;
}

std::string Dump(const DriftStatistics& statistics) { return statistics.ToJson().dump(); }

TEST(DriftStatistics, SummaryOfFourPositions) {
  DriftStatistics statistics;
  const double kl[] = {0.1, 0.4, 0.2, 0.3}, base[] = {1, 2, 3, 4}, merged[] = {2, 2, 3, 5};
  for (int i = 0; i < 4; ++i) {
    RowDrift row = Row(kl[i]);
    row.base_surprise = base[i];
    row.merged_surprise = merged[i];
    row.same_top = i != 2;
    row.top_overlap = i + 1;
    row.machine_share = i == 1 ? 0.5 : 0;
    ASSERT_TRUE(statistics.Append("text", i, row).ok());
  }
  const DriftSummary summary = statistics.Summarize();
  EXPECT_EQ(summary.positions, 4);
  EXPECT_DOUBLE_EQ(summary.mean, 0.25);
  EXPECT_DOUBLE_EQ(summary.median, 0.25);
  EXPECT_DOUBLE_EQ(summary.p90, 0.37);
  EXPECT_DOUBLE_EQ(summary.p99, 0.397);
  EXPECT_DOUBLE_EQ(summary.p999, 0.3997);
  EXPECT_EQ(summary.max, 0.4);
  EXPECT_EQ(summary.min, 0.1);
  EXPECT_DOUBLE_EQ(summary.same_top, 0.75);
  EXPECT_DOUBLE_EQ(summary.top_overlap, 0.5);
  EXPECT_DOUBLE_EQ(summary.base_perplexity, std::exp(2.5));
  EXPECT_DOUBLE_EQ(summary.merged_perplexity, std::exp(3.0));
  EXPECT_DOUBLE_EQ(summary.machine_share, 0.125);
  EXPECT_EQ(summary.machine_share_max, 0.5);
}

TEST(DriftStatistics, NothingIsAllZeros) {
  const DriftSummary summary = DriftStatistics().Summarize();
  EXPECT_EQ(summary.positions, 0);
  EXPECT_EQ(summary.mean, 0);
  EXPECT_EQ(summary.base_perplexity, 0);
  EXPECT_TRUE(DriftStatistics().Worst(3).empty());
}

TEST(DriftStatistics, TheWorstFirst) {
  DriftStatistics statistics;
  ASSERT_TRUE(statistics.Append("a", 0, Row(1)).ok());
  ASSERT_TRUE(statistics.Append("a", 1, Row(3)).ok());
  ASSERT_TRUE(statistics.Append("b", 0, Row(3)).ok());
  ASSERT_TRUE(statistics.Append("b", 1, Row(2)).ok());
  const auto worst = statistics.Worst(3);
  ASSERT_EQ(worst.size(), 3u);
  EXPECT_EQ(worst[0].text + std::to_string(worst[0].position), "a1");
  EXPECT_EQ(worst[1].text + std::to_string(worst[1].position), "b0");
  EXPECT_EQ(worst[2].text + std::to_string(worst[2].position), "b1");
  EXPECT_EQ(statistics.Worst(9).size(), 4u);
}

TEST(DriftStatistics, PartsGiveTheSameAsOneGo) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SplitMix64 random(seed);
    DriftStatistics whole, joined, part;
    for (const char* text : {"a", "b", "c"}) {
      const int64_t rows = 1 + random.Below(60);
      for (int64_t i = 0; i < rows; ++i) {
        const RowDrift row = RandomRow(random);
        ASSERT_TRUE(whole.Append(text, i, row).ok());
        ASSERT_TRUE(part.Append(text, i, row).ok());
        if (random.Below(7) != 0) continue;
        const auto read = DriftStatistics::FromJson(json::parse(Dump(part)));  // each part through its text
        ASSERT_TRUE(read.ok()) << read.status();
        ASSERT_TRUE(joined.Merge(*read).ok());
        part = DriftStatistics();
      }
    }
    ASSERT_TRUE(joined.Merge(part).ok());
    EXPECT_EQ(Dump(joined), Dump(whole));
    EXPECT_EQ(SummaryToJson(joined.Summarize()).dump(), SummaryToJson(whole.Summarize()).dump());
  }
}

TEST(DriftStatistics, RefusesGapsAndRepetitions) {
  DriftStatistics statistics;
  ASSERT_TRUE(statistics.Append("a", 0, Row(1)).ok());
  EXPECT_FALSE(statistics.Append("a", 0, Row(1)).ok());
  EXPECT_FALSE(statistics.Append("a", 2, Row(1)).ok());
  ASSERT_TRUE(statistics.Append("b", 0, Row(1)).ok());
  EXPECT_FALSE(statistics.Append("a", 1, Row(1)).ok());
  DriftStatistics part;
  ASSERT_TRUE(part.Append("b", 1, Row(2)).ok());
  ASSERT_TRUE(part.Append("b", 2, Row(2)).ok());
  ASSERT_TRUE(statistics.Merge(part).ok());
  const std::string before = Dump(statistics);
  EXPECT_FALSE(statistics.Merge(part).ok());  // twice
  EXPECT_EQ(Dump(statistics), before);
}

TEST(DriftStatistics, DamagedJsonIsRefusedWithItsPlace) {
  DriftStatistics statistics;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(statistics.Append("a", i, Row(i)).ok());
  const json good = json::parse(Dump(statistics));
  ASSERT_TRUE(DriftStatistics::FromJson(good).ok());
  const auto refusal = [&good](const char* path, const json& value) {
    json damaged = good;
    damaged[json::json_pointer(path)] = value;
    return std::string(DriftStatistics::FromJson(damaged).status().message());
  };
  EXPECT_THAT(refusal("/texts", 3), HasSubstr("no list of texts"));
  EXPECT_THAT(refusal("/texts/0", 3), HasSubstr("text 0: is no object"));
  EXPECT_THAT(refusal("/texts/0/name", 3), HasSubstr("name"));
  EXPECT_THAT(refusal("/texts/0/first_position", -1), HasSubstr("first_position"));
  EXPECT_THAT(refusal("/texts/0/kl/1", "x"), HasSubstr("kl of row 1"));
  EXPECT_THAT(refusal("/texts/0/kl/1", -1), HasSubstr("kl of row 1"));
  EXPECT_THAT(refusal("/texts/0/machine_share/2", 1.5), HasSubstr("machine_share of row 2"));
  EXPECT_THAT(refusal("/texts/0/top_overlap/0", 6), HasSubstr("top_overlap of row 0"));
  EXPECT_THAT(refusal("/texts/0/same_top", json::array({1})), HasSubstr("1 of same_top but 3 of kl"));
  EXPECT_THAT(refusal("/texts/0/base_surprise", nullptr), HasSubstr("no list base_surprise"));
  EXPECT_THAT(refusal("/texts/1", good["texts"][0]), HasSubstr("name of an earlier one"));
  EXPECT_FALSE(DriftStatistics::FromJson(json()).ok());
}

}  // namespace
}  // namespace qgpu
