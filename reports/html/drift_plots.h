// The plots of one drift probe, a panel a text. KL lies on a logarithmic axis; values of exactly 0, and those that
// rounding leaves below, have no place there and lie on a line of their own.
#pragma once

#include <string>
#include <vector>

#include "evals/drift/statistics.h"

namespace qgpu {

// A text with more positions than this is drawn by columns, each from the lowest to the highest KL in it, and a
// distribution by some of its quantiles: a page stays small.
inline constexpr int64_t kMostDots = 600;
inline constexpr int64_t kColumns = 300;

// The axis of KL, which the panels of a probe share, so that they can be compared.
struct PlotScale {
  double least = 0, most = 0;  // positive KL; 0 where there is none
  bool has_zero = false, has_negative = false;

  void Include(const TextDrift& text);
  bool has_positive() const { return most > 0; }
  // "0", or "0 or less" where rounding left a KL below it.
  const char* ZeroLabel() const { return has_negative ? "\u22640" : "0"; }
};

// KL by position; `noise_mean` (0: none) is a dashed line where it is on the scale. The scale has a positive value.
std::string PositionPlot(const TextDrift& text, double mean, double noise_mean, const PlotScale& scale);

// Share of the positions whose KL is at most so much, of drift and, dashed, noise floor (empty: not measured).
std::string DistributionPlot(const TextDrift& drift, const TextDrift& noise, const PlotScale& scale);

}  // namespace qgpu
