#include "coordinator/cli/select_cases.h"

#include <fnmatch.h>

#include <set>
#include <sstream>

#include "common/file.h"
#include "coordinator/run/drift_case.h"
#include "coordinator/run/kernel_case.h"

namespace qgpu {
namespace {

bool Matches(const std::string& filter, const CaseName& one) {
  return filter.empty() || fnmatch(filter.c_str(), one.Id().c_str(), 0) == 0 ||
         fnmatch(filter.c_str(), one.group.c_str(), 0) == 0;
}

// Lines without blanks around them; empty ones and comments (#) left out.
std::set<std::string> ListedIds(const std::string& text) {
  std::set<std::string> ids;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    ids.insert(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return ids;
}

absl::Status AddKernelSuite(const std::string& name, const RunSuiteOptions& options, SelectedCases& all) {
  QGPU_ASSIGN_OR_RETURN(KernelSuite suite, LoadSuite(name, {"drift"}));
  all.suites.push_back({suite.name, suite.hash, SuiteKind::kKernels});
  const KernelOptions limits{options.check, options.launch_limit_s * 1000LL, options.native_limit_s * 1000LL};
  for (KernelCase& one : suite.cases) all.cases.push_back(MakeKernelCase(std::move(one), limits));
  return absl::OkStatus();
}

absl::Status AddDriftSuite(const RunSuiteOptions& options, SelectedCases& all) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<DriftProbe> probes, DriftProbesNamed(options.drift_probes));
  QGPU_ASSIGN_OR_RETURN(const std::vector<DriftText> texts, DriftTextsNamed(options.drift_texts));
  QGPU_ASSIGN_OR_RETURN(
      DriftSuite suite,
      MakeDriftSuite(probes, texts, {options.drift_positions, options.drift_chunk, options.drift_limit_s * 1000LL}));
  all.suites.push_back({suite.name, suite.hash, SuiteKind::kDrift});
  all.cases.insert(all.cases.end(), suite.cases.begin(), suite.cases.end());
  return absl::OkStatus();
}

// Every case of every suite that is named.
absl::StatusOr<SelectedCases> LoadSuites(const RunSuiteOptions& options) {
  SelectedCases all;
  for (const std::string& name : options.suites) {
    QGPU_RETURN_IF_ERROR(name == "drift" ? AddDriftSuite(options, all) : AddKernelSuite(name, options, all));
    for (size_t i = 0; i + 1 < all.suites.size(); ++i) {
      if (all.suites[i].name != all.suites.back().name) continue;
      return absl::InvalidArgumentError(fmt::format("suite {} is named twice", all.suites.back().name));
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<size_t>> PickCases(const std::vector<CaseName>& cases, const std::string& filter,
                                              const std::string& case_list, bool quick) {
  const std::set<std::string> listed = ListedIds(case_list);
  std::set<std::string> unknown = listed;
  std::set<std::pair<std::string, std::string>> seen_groups;
  std::vector<size_t> picked;
  for (size_t i = 0; i < cases.size(); ++i) {
    const CaseName& one = cases[i];
    unknown.erase(one.Id());
    if (!Matches(filter, one) || (!listed.empty() && !listed.contains(one.Id()))) continue;
    if (quick && !seen_groups.insert({one.suite, one.group}).second) continue;
    picked.push_back(i);
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(fmt::format("--case-list: no case is called \"{}\"", *unknown.begin()));
  }
  if (picked.empty()) {
    return absl::InvalidArgumentError(
        filter.empty() ? "no case is selected: nothing to run"
                       : fmt::format("--filter {} matches no case; --dry-run without it lists them", filter));
  }
  return picked;
}

absl::StatusOr<SelectedCases> SelectCases(const RunSuiteOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const SelectedCases all, LoadSuites(options));
  std::string case_list;
  if (!options.case_list.empty()) {
    QGPU_ASSIGN_OR_RETURN(case_list, ReadFile(options.case_list, 1 << 20));
    if (ListedIds(case_list).empty()) {
      return absl::InvalidArgumentError(fmt::format("--case-list {}: no case in it", options.case_list));
    }
  }
  std::vector<CaseName> names;
  for (const auto& one : all.cases) names.push_back(one->name());
  QGPU_ASSIGN_OR_RETURN(const std::vector<size_t> picked, PickCases(names, options.filter, case_list, options.quick));
  SelectedCases selected;
  std::set<std::string> suites;
  for (const size_t i : picked) {
    selected.cases.push_back(all.cases[i]);
    suites.insert(names[i].suite);
  }
  for (const SuiteRow& suite : all.suites) {
    if (suites.contains(suite.name)) selected.suites.push_back(suite);
  }
  return selected;
}

}  // namespace qgpu
