// The drift items of a run put together by probe: what the headline, the page and drift-csv say of them.
#pragma once

#include <string>
#include <vector>

#include "evals/drift/statistics.h"
#include "reports/rows.h"

namespace qgpu {

// One probe on one worker in one repetition; a text an item. The items are the report's own and must outlive the group.
struct DriftGroup {
  std::string suite, probe, worker;
  int repetition = 1;
  std::vector<const ItemRow*> items;    // in the run's order
  std::vector<const ItemRow*> counted;  // those of them that DriftItemCounts
  // Of the counted items. The noise floor's has the same positions or none: it is left out where an item lacks it.
  DriftSummary drift, noise;

  bool complete() const { return counted.size() == items.size(); }
};

// Whether the measurement may be spoken of as one: all positions are there, all their numbers are finite, and the item
// was judged (passed or failed).
bool DriftItemCounts(const ItemRow& item);

// In the order of the run.
std::vector<DriftGroup> DriftGroups(const RunReport& report);

// "dense bfloat16 after a launch" for "dense-bfloat16-after-launch"; a name that no probe has as it is.
std::string ProbeLabel(const std::string& probe);

// "0", "1.01e-02"
std::string FormatKl(double kl);

// The headline's figure, probes of the split form first:
//   "0 (split), 1.61e-12 (dense float32), 1.01e-02 (dense bfloat16; base's own 1.00e-02)"
// Probes of one form that all are exactly 0 are one entry. Texts that do not count are said to be missing, a bound that
// is not met is said; workers are named where they differ. "not run" where the run has no drift item.
std::string MeanKl(const RunReport& report);

}  // namespace qgpu
