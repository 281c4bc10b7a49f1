#include "reports/rows.h"

#include <ctime>
#include <map>

#include "fmt/format.h"

namespace qgpu {
namespace {

constexpr const char* kStatusNames[] = {"pass", "fail", "error", "unsupported", "timeout", "crash", "infra"};
static_assert(std::size(kStatusNames) == std::size(kAllCaseStatuses));

}  // namespace

const char* CaseStatusName(CaseStatus status) { return kStatusNames[static_cast<int>(status)]; }

std::optional<CaseStatus> CaseStatusFromName(const std::string& name) {
  for (CaseStatus status : kAllCaseStatuses) {
    if (name == CaseStatusName(status)) return status;
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
    auto [kernel, is_new] = kernel_passed.try_emplace({item.suite, item.kernel}, true);
    if (item.status != CaseStatus::kPass) kernel->second = false;
    const AttemptRow* last = item.LastAttempt();
    if (last == nullptr) continue;
    if (last->launch.has_value()) {
      totals.tokens += last->launch->tokens;
      totals.passes += last->launch->passes;
      totals.positions_checked += last->launch->positions_checked;
      totals.mismatches += last->launch->mismatches;
    }
    for (const Sample& sample : last->samples) {
      if (sample.metric == "decode" && sample.unit == "ms") totals.decode_seconds += sample.value / 1000;
    }
  }
  totals.kernels = static_cast<int>(kernel_passed.size());
  for (const auto& [kernel, passed] : kernel_passed) totals.kernels_passed += passed ? 1 : 0;
  return totals;
}

std::vector<HeadlineFigure> Headline(const RunReport& report) {
  const Totals totals = Count(report);
  return {{"kernels", fmt::format("{}/{}", totals.kernels_passed, totals.kernels)},
          {"chat", "not run"},
          {"advanced", "not run"},
          {"mean KL", "not run"}};
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

const std::vector<PublishedFigure>& PublishedFigures() {
  static const std::vector<PublishedFigure> figures = {
      {"kernels", "qwenGPU", "49/49", "Tesla T4 against its reference interpreter"},
      {"chat", "qwenGPU", "20/24", "normal mode"},
      {"advanced", "qwenGPU", "4/5", "writes CUDA, first try"},
      {"mean KL", "qwenGPU", "about 7e-4", "to the base model"},
      {"mean KL", "Qwenputer", "6e-4", "to the base model"},
      {"replay", "qwenGPU", "every launch exact", "under --check"},
      {"replay", "Qwenputer", "0 mismatches in about 230,000 positions", ""},
      {"speed", "qwenGPU", "10 to 15 tokens/s", "Apple MPS, bfloat16"},
      {"speed", "Qwenputer", "about 3,200 trace tokens/s", "L4, Triton"},
      {"speed", "Percepta", "30,000+ tokens/s", "CPU, WebAssembly interpreter"},
  };
  return figures;
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
