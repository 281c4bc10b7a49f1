#include "reports/rows.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "reports/drift_groups.h"

namespace qgpu {
namespace {

constexpr const char* kStatusNames[] = {"pass", "fail", "error", "unsupported", "timeout", "crash", "infra"};
static_assert(std::size(kStatusNames) == std::size(kAllCaseStatuses));

void AddNew(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// "base: NAME" of the workers that have such items; empty where there is no such item.
std::string BasesText(const RunReport& report, SuiteKind kind) {
  std::vector<std::string> bases;
  for (const ItemRow& item : report.items) {
    if (item.kind == kind) AddNew(bases, BaseOf(report, item.worker));
  }
  return bases.empty() ? "" : fmt::format("base: {}", fmt::join(bases, ", "));
}

}  // namespace

const char* CaseStatusName(CaseStatus status) { return kStatusNames[static_cast<int>(status)]; }

std::optional<CaseStatus> CaseStatusFromName(const std::string& name) {
  for (CaseStatus status : kAllCaseStatuses) {
    if (name == CaseStatusName(status)) return status;
  }
  return std::nullopt;
}

const char* SuiteKindName(SuiteKind kind) { return kind == SuiteKind::kDrift ? "drift" : "kernels"; }

std::optional<SuiteKind> SuiteKindFromName(const std::string& name) {
  for (SuiteKind kind : {SuiteKind::kKernels, SuiteKind::kDrift}) {
    if (name == SuiteKindName(kind)) return kind;
  }
  return std::nullopt;
}

Totals Count(const RunReport& report) {
  Totals totals;
  std::map<std::pair<std::string, std::string>, bool> kernel_passed;
  for (const ItemRow& item : report.items) {
    ++totals.items;
    if (item.status.has_value()) {
      ++totals.items_finished;
      ++totals.by_status[static_cast<int>(*item.status)];
    }
    if (item.kind == SuiteKind::kKernels) {
      auto [kernel, is_new] = kernel_passed.try_emplace({item.suite, item.kernel}, true);
      if (item.status != CaseStatus::kPass) kernel->second = false;
    }
    const AttemptRow* last = item.LastAttempt();
    if (last == nullptr) continue;
    if (last->launch.has_value()) {
      totals.tokens += last->launch->tokens;
      totals.passes += last->launch->passes;
      totals.positions_checked += last->launch->positions_checked;
      totals.mismatches += last->launch->mismatches;
    }
    for (const Sample& sample : last->samples) {
      if (sample.metric != "decode" || sample.unit != "ms" || !last->launch.has_value()) continue;
      totals.decode_seconds += sample.value / 1000;
      totals.decoded_tokens += last->launch->tokens;
    }
  }
  totals.kernels = static_cast<int>(kernel_passed.size());
  for (const auto& [kernel, passed] : kernel_passed) totals.kernels_passed += passed ? 1 : 0;
  return totals;
}

std::string BaseOf(const RunReport& report, const std::string& worker) {
  for (const NodeRow& node : report.nodes) {
    if (node.role == "worker" && node.name == worker && !node.base.empty()) return node.base;
  }
  return "not known";
}

bool HasItems(const RunReport& report, SuiteKind kind) {
  return std::any_of(report.items.begin(), report.items.end(),
                     [kind](const ItemRow& item) { return item.kind == kind; });
}

std::vector<std::string> NativeWitnesses(const RunReport& report) {
  std::vector<std::string> witnesses;
  for (const ItemRow& item : report.items) {
    const AttemptRow* last = item.LastAttempt();
    if (last == nullptr || !last->launch.has_value() || last->launch->native_witness.empty()) continue;
    AddNew(witnesses, last->launch->native_witness);
  }
  return witnesses;
}

std::vector<HeadlineFigure> Headline(const RunReport& report) {
  const Totals totals = Count(report);
  std::vector<HeadlineFigure> headline = {{"kernels", "not run", ""},
                                          {"chat", "not run", ""},
                                          {"advanced", "not run", ""},
                                          {"mean KL", MeanKl(report), BasesText(report, SuiteKind::kDrift)}};
  if (HasItems(report, SuiteKind::kKernels)) {
    headline[0].value = fmt::format("{}/{}", totals.kernels_passed, totals.kernels);
    const std::vector<std::string> witnesses = NativeWitnesses(report);
    headline[0].measured_on = fmt::format("{}; native witness: {}", BasesText(report, SuiteKind::kKernels),
                                          witnesses.empty() ? "none" : fmt::format("{}", fmt::join(witnesses, ", ")));
  }
  return headline;
}

ExitCode VerdictExitCode(const RunReport& report) {
  const Totals totals = Count(report);
  if (totals.count(CaseStatus::kFail) > 0) return kExitWrong;
  const int inconclusive =
      totals.count(CaseStatus::kTimeout) + totals.count(CaseStatus::kCrash) + totals.count(CaseStatus::kInfra);
  if (inconclusive > 0 || totals.items == 0 || totals.items_finished < totals.items) return kExitInfrastructure;
  if (totals.count(CaseStatus::kError) + totals.count(CaseStatus::kUnsupported) > 0) return kExitUsage;
  return kExitGood;
}

std::string FormatTime(int64_t unix_ms) {
  const time_t seconds = static_cast<time_t>(unix_ms / 1000);
  tm utc;
  gmtime_r(&seconds, &utc);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

}  // namespace qgpu
