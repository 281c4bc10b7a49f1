#include "evals/drift/resampling.h"

#include <algorithm>
#include <cmath>

#include "common/prng.h"

namespace qgpu {
namespace {

// Sums of the `length` values from every start, going round the end.
std::vector<double> CircularSums(const std::vector<double>& values, int64_t length) {
  const int64_t count = static_cast<int64_t>(values.size());
  std::vector<double> sums(values.size());
  for (int64_t start = 0; start < count; ++start) {
    for (int64_t i = 0; i < length; ++i) sums[start] += values[(start + i) % count];
  }
  return sums;
}

// One series, ready to be resampled.
struct Blocks {
  std::vector<double> whole, rest;  // sums of a whole block, and of the cut one at the end
  int64_t whole_count = 0;

  explicit Blocks(const std::vector<double>& values) {
    const int64_t count = static_cast<int64_t>(values.size()), length = BlockLength(count);
    whole_count = count / length;
    whole = CircularSums(values, length);
    if (count % length != 0) rest = CircularSums(values, count % length);
  }
  double Resample(SplitMix64& random) const {
    const uint32_t starts = static_cast<uint32_t>(whole.size());
    double sum = 0;
    for (int64_t i = 0; i < whole_count; ++i) sum += whole[random.Below(starts)];
    if (!rest.empty()) sum += rest[random.Below(starts)];
    return sum;
  }
};

}  // namespace

double Quantile(std::span<const double> sorted, double q) {
  const double h = q * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(h), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (h - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

int64_t BlockLength(int64_t positions) {
  int64_t root = 1;
  while (root * root * root < positions) ++root;
  return std::max<int64_t>(1, std::min(positions, std::max<int64_t>(8, root)));
}

Interval BootstrapMean(std::span<const std::vector<double>> series, uint64_t seed) {
  std::vector<Blocks> blocks;
  size_t positions = 0;
  for (const std::vector<double>& values : series) {
    if (values.empty()) continue;
    blocks.emplace_back(values);
    positions += values.size();
  }
  if (positions == 0) return {};
  SplitMix64 random(seed);
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    for (const Blocks& one : blocks) mean += one.Resample(random);
    mean /= static_cast<double>(positions);
  }
  std::sort(means.begin(), means.end());
  return {Quantile(means, 0.025), Quantile(means, 0.975)};
}

}  // namespace qgpu
