// The page from top to bottom: verdict and headline, failures, kernel x worker matrix, every item, token counts,
// manifest.
#include "reports/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "fmt/format.h"

namespace qgpu {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --line: #8884; --good: #0a7d33; --bad: #b3261e; --muted: #777; --bar: #5b8def; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
table { border-collapse: collapse; } th, td { padding: .25rem .7rem; vertical-align: top;
text-align: left; border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.pass { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .muted { color: var(--muted); }
code, pre { font: 13px/1.4 ui-monospace, monospace; } pre { white-space: pre-wrap; margin: .2rem 0; }
.big td:nth-child(2) { font-size: 1.25rem; font-weight: 600; }
.failure { border-left: 4px solid var(--bad); padding: .1rem 0 .1rem .9rem; margin: .9rem 0; } .bar { display: inline-block; height: .7rem; background: var(--bar); }
)css";

std::string Escape(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Word(const std::optional<uint32_t>& word) {
  if (!word.has_value()) return "<span class=muted>no part</span>";
  return fmt::format("<code>{}</code> <span class=muted>0x{:08x}</span>", static_cast<int32_t>(*word), *word);
}

const char* StatusClass(std::optional<CaseStatus> status) { return status == CaseStatus::kPass ? "pass" : "bad"; }
const char* StatusText(std::optional<CaseStatus> status) {
  return status.has_value() ? CaseStatusName(*status) : "not finished";
}

std::string VerdictText(const RunReport& report) {
  if (report.run.state == "interrupted") return "interrupted: nothing can be concluded from what is missing";
  switch (report.run.exit_code >= 0 ? report.run.exit_code : VerdictExitCode(report)) {
    case kExitGood:
      return "all good";
    case kExitWrong:
      return "wrong answers";
    case kExitUsage:
      return "kernels were refused";
    default:
      return "inconclusive: infrastructure failed";
  }
}

void AddHeadline(const RunReport& report, std::string& page) {
  page +=
      "<h2>Headline</h2>\n<table class=big><tr><th>figure<th>this run<th>published, as reported by their "
      "authors</tr>\n";
  for (const HeadlineFigure& figure : Headline(report)) {
    std::string published;
    for (const PublishedFigure& other : PublishedFigures()) {
      if (other.figure != figure.name) continue;
      published += fmt::format("{}{} <b>{}</b> <span class=muted>{}</span>", published.empty() ? "" : "; ",
                               Escape(other.machine), Escape(other.value), Escape(other.conditions));
    }
    page += fmt::format("<tr><td>{}<td>{}<td>{}</tr>\n", Escape(figure.name), Escape(figure.value), published);
  }
  const Totals totals = Count(report);
  std::vector<std::array<std::string, 2>> own = {
      {"replay", fmt::format("{} mismatches in {} positions", totals.mismatches, totals.positions_checked)}};
  if (totals.decode_seconds > 0) {
    own.push_back(
        {"speed", fmt::format("{:.0f} tokens/s", static_cast<double>(totals.tokens) / totals.decode_seconds)});
  }
  for (const auto& [name, value] : own) {
    std::string published;
    for (const PublishedFigure& other : PublishedFigures()) {
      if (other.figure != name) continue;
      published += fmt::format("{}{} <b>{}</b> <span class=muted>{}</span>", published.empty() ? "" : "; ",
                               Escape(other.machine), Escape(other.value), Escape(other.conditions));
    }
    page += fmt::format("<tr><td>{}<td>{}<td>{}</tr>\n", name, value, published);
  }
  page += "</table>\n";
}

void AddFailure(const ItemRow& item, std::string& page) {
  page += fmt::format("<div class=failure><b>{}</b> on {}, repetition {}: <span class=bad>{}</span>\n",
                      Escape(item.CaseId()), Escape(item.worker), item.repetition, StatusText(item.status));
  const AttemptRow* last = item.LastAttempt();
  if (last != nullptr) {
    page += fmt::format("<pre>{}</pre>\n", Escape(last->message));
    if (last->launch.has_value()) {
      const LaunchRow& launch = *last->launch;
      page += "<table>";
      if (!launch.odd_one_out.empty()) {
        page += fmt::format("<tr><td>odd one out<td><b>{}</b></tr>", Escape(launch.odd_one_out));
      }
      if (launch.token_difference.has_value()) {
        page += fmt::format(
            "<tr><td>first wrong token<td>position {}: expected <code>{}</code>, the model wrote <code>{}</code></tr>",
            launch.token_difference->position, Escape(launch.token_difference->expected),
            Escape(launch.token_difference->got));
      }
      if (launch.word_difference.has_value()) {
        const DifferingWord& word = *launch.word_difference;
        page +=
            fmt::format("<tr><td>first differing word<td>{}{}</tr>", Escape(word.place),
                        word.trace_position >= 0 ? fmt::format(", written at position {}", word.trace_position) : "");
        page += fmt::format("<tr><td>model<td>{}</tr><tr><td>interpreter<td>{}</tr><tr><td>native<td>{}</tr>",
                            Word(word.model), Word(word.interpreter), Word(word.native));
      }
      page += "</table>\n";
    }
  }
  page += "</div>\n";
}

void AddFailures(const RunReport& report, std::string& page) {
  const auto failed = [](const ItemRow& item) { return item.status != CaseStatus::kPass; };
  const auto count = std::count_if(report.items.begin(), report.items.end(), failed);
  if (count == 0) return;
  page += fmt::format("<h2>Not passed ({})</h2>\n", count);
  // Wrong answers before everything else.
  for (const bool wrong : {true, false}) {
    for (const ItemRow& item : report.items) {
      if (failed(item) && (item.status == CaseStatus::kFail) == wrong) AddFailure(item, page);
    }
  }
}

void AddMatrix(const RunReport& report, std::string& page) {
  struct Cell {
    int passed = 0, items = 0;
    int64_t tokens = 0;
  };
  std::vector<std::string> kernels, workers;
  std::map<std::pair<std::string, std::string>, Cell> cells;
  const auto add_name = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const ItemRow& item : report.items) {
    add_name(kernels, item.kernel);
    add_name(workers, item.worker);
    Cell& cell = cells[{item.kernel, item.worker}];
    ++cell.items;
    cell.passed += item.status == CaseStatus::kPass ? 1 : 0;
    const AttemptRow* last = item.LastAttempt();
    if (last != nullptr && last->launch.has_value()) cell.tokens += last->launch->tokens;
  }
  int64_t most_tokens = 1;
  for (const auto& [key, cell] : cells) most_tokens = std::max(most_tokens, cell.tokens);
  page += "<h2>Kernels and workers</h2>\n<div class=scroll><table><tr><th>kernel";
  for (const std::string& worker : workers) {
    page += fmt::format("<th>{}<th class=n>tokens<th>", Escape(worker));
  }
  page += "</tr>\n";
  for (const std::string& kernel : kernels) {
    page += "<tr><td>" + Escape(kernel);
    for (const std::string& worker : workers) {
      const Cell& cell = cells[{kernel, worker}];
      page += fmt::format("<td class={}>{}/{}<td class=n>{}<td><span class=bar style=\"width:{:.1f}rem\"></span>",
                          cell.passed == cell.items ? "pass" : "bad", cell.passed, cell.items, cell.tokens,
                          12.0 * static_cast<double>(cell.tokens) / static_cast<double>(most_tokens));
    }
    page += "</tr>\n";
  }
  page += "</table></div>\n";
}

double SampleValue(const AttemptRow& attempt, const std::string& metric) {
  for (const Sample& sample : attempt.samples) {
    if (sample.metric == metric) return sample.value;
  }
  return NAN;
}

void AddItems(const RunReport& report, std::string& page) {
  page +=
      "<h2>Every launch</h2>\n<div class=scroll><table><tr><th>case<th>worker<th class=n>rep.<th>status<th>ended"
      "<th class=n>tokens<th class=n>passes<th class=n>positions checked<th class=n>mismatches<th class=n>decode, ms"
      "<th class=n>tries<th>native witness</tr>\n";
  for (const ItemRow& item : report.items) {
    page += fmt::format("<tr><td>{}<td>{}<td class=n>{}<td class={}>{}", Escape(item.CaseId()), Escape(item.worker),
                        item.repetition, StatusClass(item.status), StatusText(item.status));
    const AttemptRow* last = item.LastAttempt();
    if (last != nullptr && last->launch.has_value()) {
      const LaunchRow& launch = *last->launch;
      const double decode_ms = SampleValue(*last, "decode");
      page += fmt::format(
          "<td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td>{}",
          Escape(launch.end), launch.tokens, launch.passes, launch.positions_checked, launch.mismatches,
          std::isnan(decode_ms) ? "" : fmt::format("{:.1f}", decode_ms), item.attempts.size(),
          Escape(launch.native_witness));
    } else {
      page += fmt::format("<td><td><td><td><td><td><td class=n>{}<td>{}", item.attempts.size(),
                          last == nullptr ? "" : Escape(last->message.substr(0, 200)));
    }
    page += "</tr>\n";
  }
  page += "</table></div>\n";
}

void AddManifest(const RunReport& report, std::string& page) {
  page += "<h2>Manifest</h2>\n<div class=scroll><table>\n";
  const auto row = [&page](const std::string& name, const std::string& value) {
    page += fmt::format("<tr><td>{}<td><code>{}</code></tr>\n", Escape(name), Escape(value));
  };
  row("run", std::to_string(report.run.id));
  row("started", FormatTime(report.run.started_ms));
  if (report.run.finished_ms > 0) row("finished", FormatTime(report.run.finished_ms));
  row("repetitions", std::to_string(report.run.repetitions));
  for (const auto& [name, hash] : report.run.suites) row("suite " + name, hash);
  for (const auto& [name, value] : report.run.manifest) row(name, value);
  for (const NodeRow& node : report.nodes) {
    const std::string prefix = node.role + " " + node.name + ": ";
    row(prefix + "program", fmt::format("{} {} ({}, {})", node.program, node.version, node.commit, node.build_type));
    row(prefix + "machine", fmt::format("{}, {}, {} x {}{}", node.host, node.operating_system, node.logical_processors,
                                        node.processor, node.accelerator.empty() ? "" : ", " + node.accelerator));
    if (node.role != "worker") continue;
    row(prefix + "model", fmt::format("{}; circuit {} (sha256 {}), {} layers, {} added dimensions", node.form,
                                      node.circuit_hash, node.circuit_sha256, node.layers, node.added_width));
    row(prefix + "base", fmt::format("{} (hidden {})", node.base, node.base_hidden));
  }
  page += "</table></div>\n";
}

}  // namespace

std::string WriteHtml(const RunReport& report) {
  const Totals totals = Count(report);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n"
      "<title>qgpu run {}: kernels {}/{}</title>\n<style>{}</style></head><body>\n<h1>qgpu run {}: <span "
      "class={}>{}</span>"
      "</h1>\n",
      report.run.id, totals.kernels_passed, totals.kernels, kStyle, report.run.id,
      report.run.exit_code == kExitGood ? "pass" : "bad", VerdictText(report));
  page += fmt::format("<p class=muted>{}, {} items, {} finished", FormatTime(report.run.started_ms), totals.items,
                      totals.items_finished);
  for (CaseStatus status : kAllCaseStatuses) {
    if (totals.count(status) > 0) page += fmt::format(", {} {}", totals.count(status), CaseStatusName(status));
  }
  page += report.run.quick ? ". A quick run: not fit as a baseline.</p>\n" : ".</p>\n";
  AddHeadline(report, page);
  AddFailures(report, page);
  AddMatrix(report, page);
  AddItems(report, page);
  AddManifest(report, page);
  return page + "</body></html>\n";
}

}  // namespace qgpu
