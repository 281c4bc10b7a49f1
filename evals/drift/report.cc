#include "evals/drift/report.h"

#include <algorithm>

namespace qgpu {
namespace {

std::string TableRow(const std::string& name, const DriftSummary& s) {
  return fmt::format(
      "{:<16.16} {:>9} {:>10.3e} {:>9.2e} {:>9.2e} {:>9.2e} {:>9.2e} {:>9.2e} {:>9.2e} {:>9.2e} {:>8.3f} "
      "{:>8.3f} {:>11.5g} {:>11.5g} {:>9.1e}\n",
      name, s.positions, s.mean, s.mean_interval.low, s.mean_interval.high, s.median, s.p90, s.p99, s.p999, s.max,
      100 * s.same_top, 100 * s.top_overlap, s.base_perplexity, s.merged_perplexity, s.machine_share_max);
}

std::string Rows(const DriftStatistics& statistics, const std::string& prefix) {
  std::string rows;
  for (const TextDrift& text : statistics.texts())
    rows += TableRow(prefix + text.name, DriftStatistics::Summarize(text));
  if (statistics.texts().size() > 1) rows += TableRow(prefix + "all", statistics.Summarize());
  return rows;
}

}  // namespace

std::string DriftTable(const DriftStatistics& drift, const DriftStatistics& noise_floor) {
  std::string table =
      fmt::format("{:<16} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>11} {:>11} {:>9}\n",
                  "text", "positions", "KL mean", "95% low", "high", "median", "p90", "p99", "p99.9", "max", "top-1 %",
                  "top-5 %", "ppl base", "ppl merged", "machine");
  table += Rows(drift, "");
  if (noise_floor.texts().empty()) return table;
  table += "noise floor: the base in float32 against the base in bfloat16\n";
  table += Rows(noise_floor, "  ");
  return table;
}

std::string WorstPositions(const DriftMeasurement& measurement, size_t count,
                           const std::function<std::string(const std::vector<int64_t>&)>& show) {
  std::string lines;
  for (const WorstPosition& worst : measurement.drift().Worst(count)) {
    const auto& texts = measurement.texts();
    const auto text =
        std::find_if(texts.begin(), texts.end(), [&](const DriftTokens& known) { return known.name == worst.text; });
    if (text == texts.end() || worst.kl <= 0) continue;
    std::vector<int64_t> before = DriftContext(*text, worst.position);
    const std::vector<int64_t> next = {before.back()};
    before.pop_back();
    lines += fmt::format("{:>10.3e}  {} {}: \"{}\" then \"{}\"\n", worst.kl, worst.text, worst.position, show(before),
                         show(next));
  }
  return lines.empty() ? "none: no position drifts\n" : lines;
}

}  // namespace qgpu
