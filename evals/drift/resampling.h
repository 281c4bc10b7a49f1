// Quantiles and a bootstrap interval of measurements that lie in order and depend on their neighbours, as those of one
// text's positions do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qgpu {

// The q-quantile, 0 <= q <= 1, of at least one value: with the values sorted as x[0] to x[n - 1] and h = q (n - 1), the
// straight line between x[floor(h)] and x[floor(h) + 1] at h (definition 7 of Hyndman and Fan, "Sample Quantiles in
// Statistical Packages", The American Statistician 50, 1996; numpy's and R's own). `sorted` is in order.
double Quantile(std::span<const double> sorted, double q);

// Positions of one block: the cube root of their number, rounded up (the order of Hall, Horowitz and Jing, "On blocking
// rules for the bootstrap with dependent data", Biometrika 82, 1995, for the variance of a mean; its constant depends
// on the data and is taken as 1), but no fewer than 8 where there are so many.
int64_t BlockLength(int64_t positions);

struct Interval {
  double low = 0, high = 0;
};
inline constexpr int kResamples = 2000;
inline constexpr uint64_t kResamplingSeed = 1994;

// The 95 % percentile interval of the mean over all series together: kResamples times each series is put together anew
// from blocks of itself that start anywhere and go round its end to its beginning (the circular block bootstrap of
// Politis and Romano, "A circular block-resampling procedure for stationary data", 1992), the last one cut to length.
// No block spans two series. The same numbers for the same input on every machine. {0, 0} of nothing.
Interval BootstrapMean(std::span<const std::vector<double>> series, uint64_t seed = kResamplingSeed);

}  // namespace qgpu
