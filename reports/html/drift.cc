// The page's section on text drift: for each probe a table, plots and the worst positions.
#include <algorithm>

#include "fmt/format.h"
#include "reports/html/drift_plots.h"
#include "reports/html/markup.h"
#include "reports/html/sections.h"

namespace qgpu {
namespace {

constexpr size_t kWorst = 5;
constexpr int64_t kContext = 16;  // tokens before a worst position

const char* const kColumns[] = {"positions",
                                "mean KL, nats",
                                "its 95 % interval",
                                "median",
                                "p90",
                                "p99",
                                "p99.9",
                                "max",
                                "same top\u20111",
                                "top\u20115 overlap",
                                "perplexity, base",
                                "perplexity, merged",
                                "machine share, mean",
                                "machine share, max"};

std::string SummaryCells(const std::string& positions, const DriftSummary& s) {
  std::string cells = NumberCell(positions);
  if (s.positions == 0) {
    for (size_t i = 1; i < std::size(kColumns); ++i) cells += NumberCell("");
    return cells;
  }
  cells += NumberCell(FormatKl(s.mean));
  const Interval& interval = s.mean_interval;
  cells +=
      interval.low == interval.high
          ? NumberCell(FormatKl(interval.low))
          : NumberCell(fmt::format("<div>{} to</div><div>{}</div>", FormatKl(interval.low), FormatKl(interval.high)));
  for (const double quantile : {s.median, s.p90, s.p99, s.p999, s.max}) cells += NumberCell(FormatKl(quantile));
  for (const double share : {s.same_top, s.top_overlap}) cells += NumberCell(fmt::format("{:.2f} %", 100 * share));
  for (const double perplexity : {s.base_perplexity, s.merged_perplexity}) {
    cells += NumberCell(fmt::format("{:.5g}", perplexity));
  }
  for (const double share : {s.machine_share, s.machine_share_max}) {
    cells += NumberCell(share == 0 ? "0" : fmt::format("{:.1e}", share));
  }
  return cells;
}

// "1,023", or "384 of 1,023" of what is not complete, or "none".
std::string PositionsText(const ItemRow& item) {
  if (!item.drift.has_value() || item.drift->positions == 0) return "none";
  const int64_t rows = std::ssize(item.drift->drift.rows);
  if (item.drift->complete()) return WithCommas(rows);
  return fmt::format("{} of {}", WithCommas(rows), WithCommas(item.drift->positions));
}

std::string TextRow(const ItemRow& item) {
  const bool counts = DriftItemCounts(item);
  const DriftSummary summary = counts ? DriftStatistics::Summarize(item.drift->drift) : DriftSummary{};
  return fmt::format("<tr class=\"{}\">", counts ? "text" : "part") + Cell(Escape(item.case_name)) +
         fmt::format("<td><span class=\"{}\">{}</span></td>", StatusClass(item.status),
                     item.status.has_value() ? StatusText(item.status) : "incomplete") +
         SummaryCells(PositionsText(item), summary) + "</tr>\n";
}

std::string GroupVerdict(const DriftGroup& group) {
  const auto passed = std::count_if(group.items.begin(), group.items.end(),
                                    [](const ItemRow* item) { return item->status == CaseStatus::kPass; });
  return fmt::format("<span class=\"{}\">{} of {} pass</span>", passed == std::ssize(group.items) ? "pass" : "bad",
                     passed, group.items.size());
}

std::string TableRow(const std::string& css_class, const std::string& name, const std::string& verdict,
                     const DriftSummary& summary) {
  return fmt::format("<tr class=\"{}\">", css_class) + Cell(name) + Cell(verdict) +
         SummaryCells(WithCommas(summary.positions), summary) + "</tr>\n";
}

std::string Table(const DriftGroup& group) {
  std::string html = "<div class=\"scroll\"><table class=\"dense-table\"><tr><th>text</th><th>verdict</th>";
  for (const char* column : kColumns) html += fmt::format("<th class=\"n\">{}</th>", column);
  html += "</tr>\n";
  for (const ItemRow* item : group.items) html += TextRow(*item);
  const std::string all = group.complete()
                              ? "all together"
                              : fmt::format("the {} complete of {}", group.counted.size(), group.items.size());
  html += TableRow("all", all, GroupVerdict(group), group.drift);
  if (group.noise.positions > 0) {
    html += fmt::format(
        "<tr><th colspan=\"{}\">noise floor: the base in bfloat16 (as \"merged\") against the base in "
        "float32</th></tr>\n",
        std::size(kColumns) + 2);
    for (const ItemRow* item : group.counted) {
      html += TableRow("text", Escape(item->case_name), "", DriftStatistics::Summarize(item->drift->noise));
    }
    html += TableRow("all", all, "", group.noise);
  }
  return html + "</table></div>\n";
}

// What the coordinator said of each text.
std::string Judgements(const DriftGroup& group) {
  std::string items;
  for (const ItemRow* item : group.items) {
    const AttemptRow* last = item->LastAttempt();
    if (last == nullptr || last->message.empty()) continue;
    items += fmt::format("<li>{}: {}</li>\n", Escape(item->case_name), Escape(last->message));
  }
  return items.empty() ? "" : "<details><summary>What was judged</summary><ul>\n" + items + "</ul></details>\n";
}

std::string Figure(const std::string& caption, const std::string& svg) {
  return fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", caption, svg);
}

// A line of the legend's: a sample and what it stands for.
std::string Key(const char* css_class, const char* path, const char* meaning) {
  return fmt::format(
      "<svg class=\"key\" viewBox=\"0 0 32 12\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"></path></svg> {} ",
      css_class, path, meaning);
}

std::string Legend(bool has_noise, bool is_reduced) {
  std::string html = "<p class=\"muted\">" + Key("dots", "M6 6h0M16 6h0M26 6h0", "KL at a position") +
                     Key("mean", "M0 6H32", "its mean over the text") + Key("drift", "M0 6H32", "its distribution");
  if (has_noise)
    html +=
        Key("noise", "M0 6H32", "the same of the noise floor: its mean where the axis reaches it, its distribution");
  if (is_reduced) {
    html += fmt::format(
        "<br>Texts of more than {} positions are drawn in {} columns, each from the lowest to the highest KL above 0 "
        "of its "
        "positions; their distributions by every so many ranks and the highest.",
        kMostDots, qgpu::kColumns);
  }
  return html + "</p>\n";
}

std::string Plots(const DriftGroup& group) {
  PlotScale positions, values;  // of drift by position; of drift and noise floor as distributions
  bool has_noise = false, is_reduced = false;
  for (const ItemRow* item : group.counted) {
    positions.Include(item->drift->drift);
    values.Include(item->drift->drift);
    values.Include(item->drift->noise);
    has_noise |= !item->drift->noise.rows.empty();
    is_reduced |= std::ssize(item->drift->drift.rows) > kMostDots;
  }
  if (group.counted.empty()) return "<p>No text is complete: nothing is plotted.</p>\n";
  std::string html;
  if (positions.has_positive()) {
    html += Legend(has_noise, is_reduced) + "<div class=\"panels\">\n";
    for (const ItemRow* item : group.counted) {
      const double noise_mean =
          item->drift->noise.rows.empty() ? 0 : DriftStatistics::Summarize(item->drift->noise).mean;
      html += Figure(
          Escape(item->case_name) + ": KL in nats by position",
          PositionPlot(item->drift->drift, DriftStatistics::Summarize(item->drift->drift).mean, noise_mean, positions));
    }
    html += "</div>\n<div class=\"panels\">\n";
    for (const ItemRow* item : group.counted) {
      html += Figure(Escape(item->case_name) + ": share of positions with at most this KL",
                     DistributionPlot(item->drift->drift, item->drift->noise, values));
    }
    html += "</div>\n";
  } else {
    html += fmt::format("<p>KL is {} at each of the {} positions: there is nothing to plot.</p>\n",
                        positions.has_negative ? "0 or, by rounding, less" : "exactly 0",
                        WithCommas(group.drift.positions));
  }
  return html;
}

struct Worst {
  const ItemRow* item;
  int64_t row;
  double kl;
};

// The tokens before the one that was predicted, and that one, marked.
std::string Context(const DriftRow& drift, int64_t row) {
  const int64_t known = std::ssize(drift.predicted), begin = std::max<int64_t>(0, row - kContext);
  if (row >= known) return "<span class=\"muted\">not kept</span>";
  std::string before = begin > 0 ? "\u2026" : "";
  for (int64_t i = begin; i < row; ++i) before += drift.predicted[static_cast<size_t>(i)];
  return fmt::format("<bdi dir=\"ltr\">{}</bdi><mark><bdi dir=\"ltr\">{}</bdi></mark>", Escape(before),
                     Escape(drift.predicted[static_cast<size_t>(row)]));
}

std::string WorstPositions(const DriftGroup& group) {
  std::vector<Worst> all;
  for (const ItemRow* item : group.counted) {
    const std::vector<RowDrift>& rows = item->drift->drift.rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].kl > 0) all.push_back({item, static_cast<int64_t>(i), rows[i].kl});
    }
  }
  if (all.empty()) return "";
  std::stable_sort(all.begin(), all.end(), [](const Worst& a, const Worst& b) { return a.kl > b.kl; });
  all.resize(std::min(all.size(), kWorst));
  std::string html =
      "<details open=\"\"><summary>Worst positions; the predicted token is marked</summary>\n<div "
      "class=\"scroll\"><table>"
      "<tr><th class=\"n\">KL, nats</th><th>text</th><th class=\"n\">position</th><th class=\"n\">surprise of base, "
      "nats</th><th class=\"n\">of merged</th><th>same top-1</th><th>text up to there</th></tr>\n";
  for (const Worst& worst : all) {
    const RowDrift& row = worst.item->drift->drift.rows[static_cast<size_t>(worst.row)];
    html += "<tr>" + NumberCell(FormatKl(worst.kl)) + Cell(Escape(worst.item->case_name)) +
            NumberCell(WithCommas(worst.row)) + NumberCell(fmt::format("{:.4f}", row.base_surprise)) +
            NumberCell(fmt::format("{:.4f}", row.merged_surprise)) + Cell(row.same_top ? "yes" : "no") +
            "<td class=\"context\">" + Context(*worst.item->drift, worst.row) + "</td></tr>\n";
  }
  return html + "</table></div></details>\n";
}

std::string Description(const RunReport& report, const DriftGroup& group) {
  std::string text = "base: " + BaseOf(report, group.worker);
  for (const ItemRow* item : group.items) {
    if (!item->drift.has_value() || item->drift->merged.empty()) continue;
    const DriftRow& drift = *item->drift;
    text += fmt::format("; KL({} || {}); token ids from {}", drift.reference, drift.merged, drift.token_source);
    break;
  }
  return Escape(text);
}

}  // namespace

void AddDrift(const RunReport& report, std::string& page) {
  const std::vector<DriftGroup> groups = DriftGroups(report);
  if (groups.empty()) return;
  page +=
      "<h2 id=\"drift\">Text drift</h2>\n<p>How far the merged model's predictions on text are from the base's: "
      "KL(base "
      "|| merged) over the base's vocabulary at every position, both models fed the same text. Machine share: the "
      "probability that the merged model gives to the machine's tokens.</p>\n";
  for (const DriftGroup& group : groups) {
    page += fmt::format(
        "<h3>{} on {}{}</h3>\n<p class=\"muted\">{}</p>\n", Escape(ProbeLabel(group.probe)), Escape(group.worker),
        report.run.repetitions > 1 ? fmt::format(", repetition {}", group.repetition) : "", Description(report, group));
    page += Table(group) + Judgements(group) + Plots(group) + WorstPositions(group);
  }
}

}  // namespace qgpu
