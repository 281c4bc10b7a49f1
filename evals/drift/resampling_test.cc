// Quantiles and the bootstrap against numpy and a program of its own in Python.
#include "evals/drift/resampling.h"

#include <algorithm>
#include <cmath>

#include "common/prng.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

TEST(Quantile, IsThatOfNumpy) {
  std::vector<double> values = {0.3, -1.0, 7.5, 2.25, 2.25, 9.0, -4.0};
  std::sort(values.begin(), values.end());
  EXPECT_DOUBLE_EQ(Quantile(values, 0), -4);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.5), 2.25);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 8.1);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.99), 8.91);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.999), 8.991);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 9);
  EXPECT_EQ(Quantile(std::vector<double>{3}, 0.7), 3);
}

TEST(BlockLength, IsTheCubeRootButNoLessThanEight) {
  EXPECT_EQ(BlockLength(1), 1);
  EXPECT_EQ(BlockLength(5), 5);
  EXPECT_EQ(BlockLength(100), 8);
  EXPECT_EQ(BlockLength(729), 9);
  EXPECT_EQ(BlockLength(730), 10);
  EXPECT_EQ(BlockLength(1'000'000), 100);
}

// The figures are those of a Python program that draws block by block from the same generator.
TEST(BootstrapMean, IsThatOfABlockByBlockProgram) {
  std::vector<std::vector<double>> series(2);
  for (int i = 0; i < 50; ++i) series[0].push_back((i * i) % 17);
  for (int i = 0; i < 20; ++i) series[1].push_back(i);
  const Interval both = BootstrapMean(series, 1994);
  EXPECT_NEAR(both.low, 6.8, 1e-12);
  EXPECT_NEAR(both.high, 10.22857142857143, 1e-8);
  const Interval first = BootstrapMean({series.data(), 1}, 7);
  EXPECT_NEAR(first.low, 6.4, 1e-12);
  EXPECT_NEAR(first.high, 9.82, 1e-12);
}

TEST(BootstrapMean, OfEqualValuesIsThatValue) {
  const std::vector<std::vector<double>> zeros = {std::vector<double>(100, 0.0), {}},
                                         halves = {std::vector<double>(33, 0.5), std::vector<double>(7, 0.5)};
  EXPECT_EQ(BootstrapMean(zeros).low, 0);
  EXPECT_EQ(BootstrapMean(zeros).high, 0);
  EXPECT_EQ(BootstrapMean(halves).low, 0.5);
  EXPECT_EQ(BootstrapMean(halves).high, 0.5);
  EXPECT_EQ(BootstrapMean({}).high, 0);
}

// Independent values, whose mean is within 1.96 standard errors 95 times of 100; binomial(200, 0.95) below 176 is less
// likely than one in 10,000.
TEST(BootstrapMean, CoversTheTruth) {
  SplitMix64 random(3);
  int covered = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<double>> series(1);
    for (int i = 0; i < 400; ++i) series[0].push_back(random.Uniform());
    const Interval interval = BootstrapMean(series, trial);
    covered += interval.low <= 0.5 && 0.5 <= interval.high;
  }
  EXPECT_GE(covered, 176);
  EXPECT_LT(covered, 200);
}

// Runs of eight equal values: the interval must be wider than that of single draws, about 1.96 / sqrt(n) here.
TEST(BootstrapMean, IsWiderWhereNeighboursAreAlike) {
  SplitMix64 random(4);
  std::vector<std::vector<double>> series(1);
  while (series[0].size() < 800) {
    const double sign = random.Below(2) == 0 ? -1 : 1;
    series[0].insert(series[0].end(), 8, sign);
  }
  const Interval interval = BootstrapMean(series);
  EXPECT_GT((interval.high - interval.low) / 2, 1.6 * 1.96 / std::sqrt(800.0));
}

}  // namespace
}  // namespace qgpu
