// Which cases of which suites a run has.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/options.h"
#include "kernels/suite.h"

namespace qgpu {

// Loads the suites and picks their cases by filter, case list and --quick, in order. kInvalidArgument if nothing is
// left, or a line of the list names no case; errors of LoadSuite and ReadFile.
struct SelectedCases {
  std::vector<std::pair<std::string, std::string>> suites;  // name, hash
  std::vector<KernelCase> cases;
};
absl::StatusOr<SelectedCases> SelectCases(const RunSuiteOptions& options);

// The same from suites in hand; `case_list` is the file's text.
absl::StatusOr<std::vector<KernelCase>> PickCases(const std::vector<KernelSuite>& suites, const std::string& filter,
                                                  const std::string& case_list, bool quick);

}  // namespace qgpu
