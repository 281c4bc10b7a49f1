// What a drift measurement says, as text for people.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evals/drift/judge.h"
#include "evals/drift/measure.h"

namespace qgpu {

// A row a text and one for all; the noise floor's below where it was measured.
std::string DriftTable(const DriftStatistics& drift, const DriftStatistics& noise_floor);

// The worst positions that drift at all, with their context; `show` turns ids into printable text.
std::string WorstPositions(const DriftMeasurement& measurement, size_t count,
                           const std::function<std::string(const std::vector<int64_t>&)>& show);

}  // namespace qgpu
