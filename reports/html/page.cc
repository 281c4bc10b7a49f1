#include "fmt/format.h"
#include "reports/html.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"

namespace qgpu {
namespace {

// Drift is a solid blue line or a dot, the noise floor a dashed orange one: never colour alone.
constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1b1b1f; --line: #8884; --good: #0a7d33; --bad: #b3261e;
  --muted: #63636b; --bar: #5b8def; --drift: #1d5fd0; --noise: #b35900; --mark: #ffe08a; }
@media (prefers-color-scheme: dark) { :root { --page: #16161a; --text: #e6e6ea; --good: #5ccb82; --bad: #ff8a80;
  --muted: #a0a0aa; --bar: #4f7fdc; --drift: #7db0ff; --noise: #ffab5e; --mark: #6b5300; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--page); color: var(--text); }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .3rem; } p { margin: .3rem 0; }
table { border-collapse: collapse; } th, td { padding: .25rem .7rem; vertical-align: top;
  text-align: left; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; }
.pass { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .muted { color: var(--muted); }
code, pre { font: 13px/1.4 ui-monospace, monospace; } pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
code { overflow-wrap: anywhere; } nav a { margin-right: 1rem; color: inherit; }
.big .figure { font-size: 1.1rem; font-weight: 600; } .big td { max-width: 24rem; }
.limits { font-size: .85rem; color: var(--muted); }
.failure { border-left: 4px solid var(--bad); padding: .1rem 0 .1rem .9rem; margin: .9rem 0; }
.bar { display: inline-block; height: .7rem; background: var(--bar); }
.dense-table th, .dense-table td { padding: .2rem .45rem; font-size: .8rem; }
.dense-table th.n { white-space: normal; }
tr.all td { font-weight: 600; } tr.part td { color: var(--muted); }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: .6rem 1.2rem; margin: .6rem 0; }
figure { margin: 0; } figcaption { font-size: .85rem; }
svg { display: block; width: 100%; height: auto; } svg.key { display: inline-block; width: 2rem; height: .8rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--muted); }
.axis { stroke: var(--muted); fill: none; } .grid { stroke: var(--line); fill: none; stroke-width: .7; }
.drift { stroke: var(--drift); fill: none; stroke-width: 1.8; }
.noise { stroke: var(--noise); fill: none; stroke-width: 1.8; stroke-dasharray: 5 3; }
.dots { stroke: var(--drift); fill: none; stroke-width: 3; stroke-linecap: round; }
.columns { stroke: var(--drift); fill: none; }
.mean { stroke: var(--text); fill: none; stroke-width: 1.2; }
mark { background: var(--mark); color: inherit; padding: 0 .1em; border-bottom: 2px solid var(--noise); }
td.context { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
details { margin: .4rem 0; } summary { cursor: pointer; }
)css";

std::string VerdictText(const RunReport& report) {
  if (report.run.state == "interrupted") return "interrupted: nothing can be concluded from what is missing";
  if (report.run.state == "running") return "not finished: nothing can be concluded from what is missing";
  switch (report.run.exit_code >= 0 ? report.run.exit_code : VerdictExitCode(report)) {
    case kExitGood:
      return "all good";
    case kExitWrong:
      return "wrong answers";
    case kExitUsage:
      return "items were refused";
    default:
      return "inconclusive: infrastructure failed";
  }
}

// Only to what is there.
std::string Navigation(const std::string& page) {
  std::string links;
  for (const auto& [anchor, name] : {std::pair{"failures", "Not passed"},
                                     {"missing", "Missing"},
                                     {"kernels", "Kernels"},
                                     {"drift", "Text drift"},
                                     {"launches", "Every launch"},
                                     {"manifest", "Manifest"}}) {
    if (page.find(fmt::format("id=\"{}\"", anchor)) == std::string::npos) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>", anchor, name);
  }
  return "<nav>" + links + "</nav>\n";
}

}  // namespace

std::string WriteHtml(const RunReport& report) {
  const Totals totals = Count(report);
  const std::vector<HeadlineFigure> headline = Headline(report);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>qgpu run {}: kernels {}</title>\n<style>{}</style></head><body>\n"
      "<h1>qgpu run {}: <span class=\"{}\">{}</span></h1>\n",
      report.run.id, Escape(headline[0].value), kStyle, report.run.id,
      report.run.exit_code == kExitGood ? "pass" : "bad", VerdictText(report));
  page += fmt::format("<p class=\"muted\">{}, {} items, {} finished", FormatTime(report.run.started_ms), totals.items,
                      totals.items_finished);
  for (CaseStatus status : kAllCaseStatuses) {
    if (totals.count(status) > 0) page += fmt::format(", {} {}", totals.count(status), CaseStatusName(status));
  }
  page += report.run.quick ? ". A quick run: not fit as a baseline.</p>\n" : ".</p>\n";
  std::string sections;
  AddHeadline(report, sections);
  AddFailures(report, sections);
  AddMissing(report, sections);
  AddKernels(report, sections);
  AddDrift(report, sections);
  AddLaunches(report, sections);
  AddManifest(report, sections);
  return page + Navigation(sections) + sections + "</body></html>\n";
}

}  // namespace qgpu
