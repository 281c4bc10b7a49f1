// What a drift measurement says, as text for people, and whether it is within its bound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evals/drift/measure.h"

namespace qgpu {

enum class DriftBound {
  kExactlyZero,      // every position: the same weights run the same kernels
  kRounding,         // mean KL at most kMostRounding: the same numbers, summed in another order
  kTimesNoiseFloor,  // mean KL at most kMostTimesNoise times that of the base itself in the same type
  kNone,             // nothing is promised
};
inline constexpr double kMostRounding = 1e-9;
inline constexpr double kMostTimesNoise = 1.5;

struct DriftVerdict {
  bool within = false;
  std::string text;  // the bound, the figure, "met" or "NOT MET"
};
// Not within: a measurement without positions, or one that lacks the noise floor its bound is about.
DriftVerdict JudgeDrift(const DriftStatistics& drift, const DriftStatistics& noise_floor, DriftBound bound);

// A row a text and one for all; the noise floor's below where it was measured.
std::string DriftTable(const DriftStatistics& drift, const DriftStatistics& noise_floor);

// The worst positions that drift at all, with their context; `show` turns ids into printable text.
std::string WorstPositions(const DriftMeasurement& measurement, size_t count,
                           const std::function<std::string(const std::vector<int64_t>&)>& show);

}  // namespace qgpu
