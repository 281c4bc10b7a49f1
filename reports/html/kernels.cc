#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"

namespace qgpu {
namespace {

void AddNew(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// "12.3", or nothing where it was not measured.
std::string SampleText(const AttemptRow& attempt, const std::string& metric) {
  for (const Sample& sample : attempt.samples) {
    if (sample.metric == metric) return fmt::format("{:.1f}", sample.value);
  }
  return "";
}

}  // namespace

void AddKernels(const RunReport& report, std::string& page) {
  struct MatrixCell {
    int passed = 0, items = 0;
    int64_t tokens = 0;
  };
  std::vector<std::string> kernels, workers;
  std::map<std::pair<std::string, std::string>, MatrixCell> cells;
  for (const ItemRow& item : report.items) {
    if (item.kind != SuiteKind::kKernels) continue;
    AddNew(kernels, item.kernel);
    AddNew(workers, item.worker);
    MatrixCell& cell = cells[{item.kernel, item.worker}];
    ++cell.items;
    cell.passed += item.status == CaseStatus::kPass ? 1 : 0;
    const AttemptRow* last = item.LastAttempt();
    if (last != nullptr && last->launch.has_value()) cell.tokens += last->launch->tokens;
  }
  if (kernels.empty()) return;
  int64_t most_tokens = 1;
  for (const auto& [key, cell] : cells) most_tokens = std::max(most_tokens, cell.tokens);
  page += "<h2 id=\"kernels\">Kernels and workers</h2>\n<div class=\"scroll\"><table><tr><th>kernel</th>";
  for (const std::string& worker : workers) {
    page += fmt::format("<th>{}</th><th class=\"n\">tokens</th><th></th>", Escape(worker));
  }
  page += "</tr>\n";
  for (const std::string& kernel : kernels) {
    page += "<tr>" + Cell(Escape(kernel));
    for (const std::string& worker : workers) {
      const MatrixCell& cell = cells[{kernel, worker}];
      page += fmt::format(
          "<td class=\"{}\">{}/{}</td><td class=\"n\">{}</td><td><span class=\"bar\" "
          "style=\"width:{:.1f}rem\"></span></td>",
          cell.passed == cell.items ? "pass" : "bad", cell.passed, cell.items, cell.tokens,
          12.0 * static_cast<double>(cell.tokens) / static_cast<double>(most_tokens));
    }
    page += "</tr>\n";
  }
  page += "</table></div>\n";
}

void AddLaunches(const RunReport& report, std::string& page) {
  if (!HasItems(report, SuiteKind::kKernels)) return;
  page +=
      "<h2 id=\"launches\">Every launch</h2>\n<div class=\"scroll\"><table><tr><th>case</th><th>worker</th>"
      "<th class=\"n\">rep.</th><th>status</th><th>ended</th><th class=\"n\">tokens</th><th class=\"n\">passes</th>"
      "<th class=\"n\">positions checked</th><th class=\"n\">mismatches</th><th class=\"n\">decode, ms</th>"
      "<th class=\"n\">tries</th><th>native witness</th></tr>\n";
  for (const ItemRow& item : report.items) {
    if (item.kind != SuiteKind::kKernels) continue;
    page += "<tr>" + Cell(Escape(item.CaseId())) + Cell(Escape(item.worker)) +
            NumberCell(std::to_string(item.repetition)) + StatusCell(item.status);
    const AttemptRow* last = item.LastAttempt();
    const LaunchRow launch = last == nullptr ? LaunchRow{} : last->launch.value_or(LaunchRow{});
    const bool ran = last != nullptr && last->launch.has_value();
    page += Cell(Escape(launch.end));
    for (const int64_t count : {launch.tokens, launch.passes, launch.positions_checked, launch.mismatches}) {
      page += NumberCell(ran ? std::to_string(count) : "");
    }
    page += NumberCell(ran ? SampleText(*last, "decode") : "") + NumberCell(std::to_string(item.attempts.size())) +
            Cell(Escape(launch.native_witness)) + "</tr>\n";
  }
  page += "</table></div>\n";
}

}  // namespace qgpu
