#include "fmt/format.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"

namespace qgpu {

void AddManifest(const RunReport& report, std::string& page) {
  page += "<h2 id=\"manifest\">Manifest</h2>\n<div class=\"scroll\"><table>\n";
  const auto row = [&page](const std::string& name, const std::string& value) {
    page += "<tr>" + Cell(Escape(name)) + Cell("<code>" + Escape(value) + "</code>") + "</tr>\n";
  };
  row("run", std::to_string(report.run.id));
  row("started", FormatTime(report.run.started_ms));
  if (report.run.finished_ms > 0) row("finished", FormatTime(report.run.finished_ms));
  row("repetitions", std::to_string(report.run.repetitions));
  for (const SuiteRow& suite : report.run.suites) row("suite " + suite.name, suite.hash);
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

}  // namespace qgpu
