#include "evals/drift/judge.h"

#include <cmath>

namespace qgpu {
namespace {

const char* Met(bool met) { return met ? "met" : "NOT MET"; }

DriftVerdict JudgeKl(const DriftSummary& summary, const DriftStatistics& noise_floor, DriftBound bound) {
  if (bound == DriftBound::kNone) {
    const bool finite = std::isfinite(summary.mean);
    return {finite, fmt::format("mean KL {:.3e}, which has no bound{}", summary.mean, finite ? "" : ": NOT MET")};
  }
  if (bound == DriftBound::kExactlyZero) {
    const bool zero = summary.max == 0 && summary.min == 0 && summary.machine_share_max == 0;
    return {zero, fmt::format("KL exactly 0 at every position (largest {:.3e}, smallest {:.3e}): {}", summary.max,
                              summary.min, Met(zero))};
  }
  if (bound == DriftBound::kRounding) {
    const bool within = summary.mean <= kMostRounding;
    return {within, fmt::format("mean KL at most {:.0e} (is {:.3e}): {}", kMostRounding, summary.mean, Met(within))};
  }
  const DriftSummary noise = noise_floor.Summarize();
  const bool within =
      noise.positions == summary.positions && noise.mean > 0 && summary.mean <= kMostTimesNoise * noise.mean;
  const double times = noise.mean > 0 ? summary.mean / noise.mean : 0;
  return {within, fmt::format("mean KL at most {} times the base's own in the same type (is {:.3f} times {:.3e}): {}",
                              kMostTimesNoise, times, noise.mean, Met(within))};
}

// The position with the largest share that is not below the bound, as text; empty: there is none.
std::string MachineShareTooLarge(const DriftStatistics& drift) {
  std::string found;
  double largest = 0;
  for (const TextDrift& text : drift.texts()) {
    for (size_t i = 0; i < text.rows.size(); ++i) {
      const double share = text.rows[i].machine_share;
      if (share < kMachineShareBelow || (!found.empty() && !(share > largest))) continue;
      largest = share;
      found = fmt::format("the machine ids' share is {:.3e} at {} {}", share, text.name,
                          text.first_position + static_cast<int64_t>(i));
    }
  }
  return found;
}

}  // namespace

DriftBound BoundOf(const DriftProbe& probe) {
  if (probe.form == DriftProbe::Form::kSplit) return DriftBound::kExactlyZero;
  if (probe.after_launch) return DriftBound::kNone;
  return probe.bfloat16 ? DriftBound::kTimesNoiseFloor : DriftBound::kRounding;
}

DriftVerdict JudgeDrift(const DriftStatistics& drift, const DriftStatistics& noise_floor, DriftBound bound) {
  const DriftSummary summary = drift.Summarize();
  if (summary.positions == 0) return {false, "no position was measured: NOT MET"};
  DriftVerdict verdict = JudgeKl(summary, noise_floor, bound);
  const std::string too_large = MachineShareTooLarge(drift);
  if (too_large.empty()) return verdict;
  verdict.within = false;
  verdict.text += fmt::format("; {}, allowed is less than {:.0e}: NOT MET", too_large, kMachineShareBelow);
  return verdict;
}

}  // namespace qgpu
