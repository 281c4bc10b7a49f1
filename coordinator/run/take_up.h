// Whether a run that is in the store can be gone on with: what was asked and who is to answer must be the same, since a
// report speaks of one run. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "coordinator/run/suite_case.h"
#include "reports/rows.h"

namespace qgpu {

// One item as a run plans it.
struct PlannedItem {
  CaseName name;
  std::string worker;
  int repetition = 1;
};

// kFailedPrecondition naming what differs, then and now: the run is finished already; other suites or another content
// of one; other settings that decide what an item means (`asked.manifest`'s entry kReplaySetting, repetitions, quick);
// other items, in the run's order; a program that took part and is of another build, or a worker with another circuit,
// base or form.
absl::Status CheckSameRun(const RunReport& stored, const RunRow& asked, const std::vector<PlannedItem>& items,
                          const std::vector<NodeRow>& nodes);
inline constexpr const char* kReplaySetting = "replay of every position";

// One more than the largest number among the run's attempt ids ("<run>-<number>").
int64_t NextAttempt(const RunReport& stored);

}  // namespace qgpu
