// Which cases of which suites a run has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/cli/options.h"
#include "coordinator/run/suite_case.h"

namespace qgpu {

// Loads the suites and picks their cases by filter, case list and --quick, in order. kInvalidArgument if nothing is
// left, or a line of the list names no case; errors of LoadSuite, DriftTextsNamed, DriftProbesNamed and ReadFile.
struct SelectedCases {
  std::vector<SuiteRow> suites;  // those that have a case
  std::vector<std::shared_ptr<const SuiteCase>> cases;
};
absl::StatusOr<SelectedCases> SelectCases(const RunSuiteOptions& options);

// Which of `cases` are picked, by index; `case_list` is the file's text.
absl::StatusOr<std::vector<size_t>> PickCases(const std::vector<CaseName>& cases, const std::string& filter,
                                              const std::string& case_list, bool quick);

}  // namespace qgpu
