// Whether a drift measurement is within what its probe promises: the rows alone decide.
#pragma once

#include <string>

#include "evals/drift/probe.h"
#include "evals/drift/statistics.h"

namespace qgpu {

enum class DriftBound {
  kExactlyZero,      // every position: the same weights run the same kernels
  kRounding,         // mean KL at most kMostRounding: the same numbers, summed in another order
  kTimesNoiseFloor,  // mean KL at most kMostTimesNoise times that of the base itself in the same type
  kNone,             // nothing is promised of KL
};
inline constexpr double kMostRounding = 1e-9;
inline constexpr double kMostTimesNoise = 1.5;
// Of every probe, at every position: the machine's ids take less than this of the probability.
inline constexpr double kMachineShareBelow = 1e-9;

DriftBound BoundOf(const DriftProbe& probe);

struct DriftVerdict {
  bool within = false;
  std::string text;  // the bound, the figure, "met" or "NOT MET"
};
// Not within: a measurement without positions, one that lacks the noise floor its bound is about, a figure that is no
// finite number, a position where the machine's share is too large (the text then names the worst one).
DriftVerdict JudgeDrift(const DriftStatistics& drift, const DriftStatistics& noise_floor, DriftBound bound);

}  // namespace qgpu
