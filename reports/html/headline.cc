#include "fmt/format.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"
#include "reports/published.h"

namespace qgpu {
namespace {

std::vector<HeadlineFigure> Figures(const RunReport& report) {
  std::vector<HeadlineFigure> figures = Headline(report);
  if (!HasItems(report, SuiteKind::kKernels)) return figures;
  const std::string& measured_on = figures[0].measured_on;
  const Totals totals = Count(report);
  figures.push_back(
      {"replay", fmt::format("{} mismatches in {} positions", totals.mismatches, WithCommas(totals.positions_checked)),
       measured_on.substr(0, measured_on.find(';'))});
  if (totals.decode_seconds > 0) {
    figures.push_back(
        {"speed", fmt::format("{:.0f} tokens/s", static_cast<double>(totals.decoded_tokens) / totals.decode_seconds),
         measured_on.substr(0, measured_on.find(';'))});
  }
  return figures;
}

std::string Published(const std::string& figure) {
  std::string html;
  for (const PublishedFigure& other : PublishedFigures()) {
    if (other.figure != figure) continue;
    html += fmt::format("<div>{}: <b>{}</b> <span class=\"muted\">{}</span></div>", Escape(other.machine),
                        Escape(other.value), Escape(other.conditions));
  }
  return html;
}

}  // namespace

void AddHeadline(const RunReport& report, std::string& page) {
  page +=
      "<h2 id=\"headline\">Headline</h2>\n<div class=\"scroll\"><table class=\"big\"><tr><th>figure</th><th>this "
      "run</th><th>published, as reported by their authors</th><th>what the comparison cannot say</th></tr>\n";
  for (const HeadlineFigure& figure : Figures(report)) {
    const std::string measured_on =
        figure.measured_on.empty() ? "" : fmt::format("<div class=\"muted\">{}</div>", Escape(figure.measured_on));
    page += fmt::format(
        "<tr><td>{}</td><td><div class=\"figure\">{}</div>{}</td><td>{}</td><td class=\"limits\">{}</td>"
        "</tr>\n",
        Escape(figure.name), Escape(figure.value), measured_on, Published(figure.name),
        Escape(ComparisonLimits(report, figure.name)));
  }
  page += "</table></div>\n";
}

}  // namespace qgpu
