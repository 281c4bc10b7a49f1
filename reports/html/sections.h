// The sections of the page, in its order. Each adds itself to `page`; one without anything to say adds nothing.
#pragma once

#include <string>
#include <vector>

#include "reports/drift_groups.h"
#include "reports/rows.h"

namespace qgpu {

// The headline figures with what they were measured on, the published ones, and what keeps the two from being compared.
void AddHeadline(const RunReport& report, std::string& page);
// Items that did not pass, wrong answers first, with the first differing token and word.
void AddFailures(const RunReport& report, std::string& page);
// Items of a run that has ended without them.
void AddMissing(const RunReport& report, std::string& page);
// The kernel x worker matrix.
void AddKernels(const RunReport& report, std::string& page);
// For each drift probe a table, plots and the worst positions.
void AddDrift(const RunReport& report, std::string& page);
// Every launch of the kernel suites in a row.
void AddLaunches(const RunReport& report, std::string& page);
// What the run was made of: commits, hashes, flags, machines.
void AddManifest(const RunReport& report, std::string& page);

}  // namespace qgpu
