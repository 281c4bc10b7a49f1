#include "coordinator/cli/select_cases.h"

#include <fnmatch.h>

#include <set>
#include <sstream>

#include "common/file.h"

namespace qgpu {
namespace {

bool Matches(const std::string& filter, const KernelCase& one) {
  return filter.empty() || fnmatch(filter.c_str(), one.Id().c_str(), 0) == 0 ||
         fnmatch(filter.c_str(), one.kernel.c_str(), 0) == 0;
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

}  // namespace

absl::StatusOr<std::vector<KernelCase>> PickCases(const std::vector<KernelSuite>& suites, const std::string& filter,
                                                  const std::string& case_list, bool quick) {
  const std::set<std::string> listed = ListedIds(case_list);
  std::set<std::string> unknown = listed;
  std::set<std::pair<std::string, std::string>> seen_kernels;
  std::vector<KernelCase> picked;
  for (const KernelSuite& suite : suites) {
    for (const KernelCase& one : suite.cases) {
      unknown.erase(one.Id());
      if (!Matches(filter, one) || (!listed.empty() && !listed.contains(one.Id()))) continue;
      if (quick && !seen_kernels.insert({one.suite, one.kernel}).second) continue;
      picked.push_back(one);
    }
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
  SelectedCases selected;
  std::vector<KernelSuite> suites;
  for (const std::string& name : options.suites) {
    QGPU_ASSIGN_OR_RETURN(suites.emplace_back(), LoadSuite(name));
    for (const auto& [known, hash] : selected.suites) {
      if (known == suites.back().name) {
        return absl::InvalidArgumentError(fmt::format("suite {} is named twice", known));
      }
    }
    selected.suites.push_back({suites.back().name, suites.back().hash});
  }
  std::string case_list;
  if (!options.case_list.empty()) {
    QGPU_ASSIGN_OR_RETURN(case_list, ReadFile(options.case_list, 1 << 20));
    if (ListedIds(case_list).empty()) {
      return absl::InvalidArgumentError(fmt::format("--case-list {}: no case in it", options.case_list));
    }
  }
  QGPU_ASSIGN_OR_RETURN(selected.cases, PickCases(suites, options.filter, case_list, options.quick));
  return selected;
}

}  // namespace qgpu
