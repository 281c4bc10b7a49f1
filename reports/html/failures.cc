#include <algorithm>

#include "fmt/format.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"

namespace qgpu {
namespace {

std::string Word(const std::optional<uint32_t>& word) {
  if (!word.has_value()) return "<span class=\"muted\">no part</span>";
  return fmt::format("<code>{}</code> <span class=\"muted\">0x{:08x}</span>", static_cast<int32_t>(*word), *word);
}

std::string Row(const std::string& name, const std::string& html) { return "<tr>" + Cell(name) + Cell(html) + "</tr>"; }

std::string LaunchTable(const LaunchRow& launch) {
  std::string rows;
  if (!launch.odd_one_out.empty()) rows += Row("odd one out", "<b>" + Escape(launch.odd_one_out) + "</b>");
  if (launch.token_difference.has_value()) {
    const TokenDifference& token = *launch.token_difference;
    rows +=
        Row("first wrong token", fmt::format("position {}: expected <code>{}</code>, the model wrote <code>{}</code>",
                                             token.position, Escape(token.expected), Escape(token.got)));
  }
  if (launch.word_difference.has_value()) {
    const DifferingWord& word = *launch.word_difference;
    const std::string written =
        word.trace_position >= 0 ? fmt::format(", written at position {}", word.trace_position) : "";
    rows += Row("first differing word", Escape(word.place) + written);
    rows +=
        Row("model", Word(word.model)) + Row("interpreter", Word(word.interpreter)) + Row("native", Word(word.native));
  }
  return rows.empty() ? "" : "<table>" + rows + "</table>\n";
}

std::string Progress(const ItemRow& item) {
  if (item.drift.has_value() && !item.drift->complete() && item.drift->positions > 0) {
    return fmt::format("{} of {} positions measured", WithCommas(std::ssize(item.drift->drift.rows)),
                       WithCommas(item.drift->positions));
  }
  const AttemptRow* last = item.LastAttempt();
  if (last == nullptr) return "not begun";
  return fmt::format("tried {} time{}, the last ended with {}", item.attempts.size(),
                     item.attempts.size() == 1 ? "" : "s", CaseStatusName(last->status));
}

std::string Failure(const ItemRow& item) {
  std::string html =
      fmt::format("<div class=\"failure\"><b>{}</b> on {}, repetition {}: <span class=\"bad\">{}</span>\n",
                  Escape(item.CaseId()), Escape(item.worker), item.repetition, StatusText(item.status));
  const AttemptRow* last = item.LastAttempt();
  if (last != nullptr) {
    html += fmt::format("<pre>{}</pre>\n", EscapeLines(last->message));
    if (last->launch.has_value()) html += LaunchTable(*last->launch);
  }
  if (item.drift.has_value() && !item.drift->complete()) html += "<p>" + Progress(item) + "</p>";
  return html + "</div>\n";
}

}  // namespace

void AddFailures(const RunReport& report, std::string& page) {
  const auto failed = [](const ItemRow& item) { return item.status.has_value() && item.status != CaseStatus::kPass; };
  const auto count = std::count_if(report.items.begin(), report.items.end(), failed);
  if (count == 0) return;
  page += fmt::format("<h2 id=\"failures\">Not passed ({})</h2>\n", count);
  for (const bool wrong : {true, false}) {
    for (const ItemRow& item : report.items) {
      if (failed(item) && (item.status == CaseStatus::kFail) == wrong) page += Failure(item);
    }
  }
}

void AddMissing(const RunReport& report, std::string& page) {
  std::string rows;
  int count = 0;
  for (const ItemRow& item : report.items) {
    if (item.status.has_value()) continue;
    ++count;
    rows += "<tr>" + Cell(Escape(item.suite)) + Cell(Escape(item.CaseId())) + Cell(Escape(item.worker)) +
            NumberCell(std::to_string(item.repetition)) + Cell(Progress(item)) + "</tr>\n";
  }
  if (count == 0 && !report.items.empty()) return;
  page += fmt::format("<h2 id=\"missing\">Missing ({})</h2>\n", count);
  if (report.items.empty()) {
    page += "<p>The run has no items: nothing was measured.</p>\n";
    return;
  }
  constexpr int kShownAtOnce = 20;
  page += fmt::format(
      "<details{}><summary>{} of {} items have no result and count as nothing.</summary>\n<div class=\"scroll\"><table>"
      "<tr><th>suite</th><th>case</th><th>worker</th><th class=\"n\">rep.</th><th>so far</th></tr>\n{}</table></div>"
      "</details>\n",
      count <= kShownAtOnce ? " open=\"\"" : "", count, report.items.size(), rows);
}

}  // namespace qgpu
