// Figures that the authors of other machines report of themselves, and what keeps them from being compared with a
// run's.
#pragma once

#include <string>
#include <vector>

#include "reports/rows.h"

namespace qgpu {

struct PublishedFigure {
  std::string figure;   // a headline figure's name, or "replay", "speed"
  std::string machine;  // whose
  std::string value;
  std::string conditions;  // what it was measured on
};
const std::vector<PublishedFigure>& PublishedFigures();

// Why this run's figure of that name and the published ones are not the same measurement; empty: the run has none.
std::string ComparisonLimits(const RunReport& report, const std::string& figure);

}  // namespace qgpu
