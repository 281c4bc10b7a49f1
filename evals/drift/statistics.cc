#include "evals/drift/statistics.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace qgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

DriftSummary SummaryOf(std::span<const TextDrift> texts) {
  DriftSummary summary;
  std::vector<std::vector<double>> series;
  std::vector<double> sorted;
  double kl = 0, top = 0, overlap = 0, base = 0, merged = 0, machine = 0;
  for (const TextDrift& text : texts) {
    series.emplace_back();
    for (const RowDrift& row : text.rows) {
      series.back().push_back(row.kl);
      kl += row.kl;
      top += row.same_top;
      overlap += row.top_overlap;
      base += row.base_surprise;
      merged += row.merged_surprise;
      machine += row.machine_share;
      summary.machine_share_max = std::max(summary.machine_share_max, row.machine_share);
    }
    sorted.insert(sorted.end(), series.back().begin(), series.back().end());
  }
  if (sorted.empty()) return summary;
  std::sort(sorted.begin(), sorted.end());
  const double count = static_cast<double>(sorted.size());
  summary.positions = static_cast<int64_t>(sorted.size());
  summary.mean = kl / count;
  summary.mean_interval = BootstrapMean(series);
  summary.median = Quantile(sorted, 0.5);
  summary.p90 = Quantile(sorted, 0.9);
  summary.p99 = Quantile(sorted, 0.99);
  summary.p999 = Quantile(sorted, 0.999);
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.same_top = top / count;
  summary.top_overlap = overlap / (count * kTopOverlap);
  summary.base_perplexity = std::exp(base / count);
  summary.merged_perplexity = std::exp(merged / count);
  summary.machine_share = machine / count;
  return summary;
}

// The columns of a text in JSON, and what their numbers may be.
struct Column {
  const char* name;
  double least, most;
  double (*get)(const RowDrift&);
  void (*set)(RowDrift&, double);
};
constexpr double kAnything = 1e300;
constexpr Column kColumns[] = {
    {"kl", -1e-9, kAnything, [](const RowDrift& r) { return r.kl; }, [](RowDrift& r, double x) { r.kl = x; }},
    {"machine_share", 0, 1, [](const RowDrift& r) { return r.machine_share; },
     [](RowDrift& r, double x) { r.machine_share = x; }},
    {"base_surprise", -1e-9, kAnything, [](const RowDrift& r) { return r.base_surprise; },
     [](RowDrift& r, double x) { r.base_surprise = x; }},
    {"merged_surprise", -1e-9, kAnything, [](const RowDrift& r) { return r.merged_surprise; },
     [](RowDrift& r, double x) { r.merged_surprise = x; }},
    {"same_top", 0, 1, [](const RowDrift& r) { return r.same_top ? 1.0 : 0.0; },
     [](RowDrift& r, double x) { r.same_top = x != 0; }},
    {"top_overlap", 0, kTopOverlap, [](const RowDrift& r) { return double(r.top_overlap); },
     [](RowDrift& r, double x) { r.top_overlap = static_cast<int>(x); }},
};

absl::Status Malformed(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{} {}", where, what));
}

absl::Status ReadColumn(const json& text, const Column& column, const std::string& where, TextDrift& out) {
  const auto found = text.find(column.name);
  if (found == text.end() || !found->is_array()) return Malformed(where, fmt::format("has no list {}", column.name));
  if (&column == kColumns) out.rows.resize(found->size());
  if (found->size() != out.rows.size()) {
    return Malformed(
        where, fmt::format("has {} of {} but {} of {}", found->size(), column.name, out.rows.size(), kColumns[0].name));
  }
  for (size_t i = 0; i < out.rows.size(); ++i) {
    const json& value = (*found)[i];
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= column.least && number <= column.most)) {
      return Malformed(
          where, fmt::format("{} of row {} is no number from {} to {}", column.name, i, column.least, column.most));
    }
    column.set(out.rows[i], number);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextDrift> ReadText(const json& text, const std::string& where) {
  TextDrift drift;
  if (!text.is_object() || !text.contains("name") || !text["name"].is_string()) {
    return Malformed(where, "is no object with a name");
  }
  drift.name = text["name"].get<std::string>();
  const auto first = text.find("first_position");
  constexpr int64_t kMostPositions = int64_t{1} << 40;
  if (first == text.end() || !first->is_number_unsigned() || first->get<uint64_t>() > kMostPositions) {
    return Malformed(where, "has no first_position");
  }
  drift.first_position = first->get<int64_t>();
  for (const Column& column : kColumns) QGPU_RETURN_IF_ERROR(ReadColumn(text, column, where, drift));
  return drift;
}

}  // namespace

absl::Status DriftStatistics::Append(const std::string& text, int64_t position, const RowDrift& row) {
  const auto is_text = [&text](const TextDrift& known) { return known.name == text; };
  const auto found = std::find_if(texts_.begin(), texts_.end(), is_text);
  if (found == texts_.end()) {
    texts_.push_back({text, position, {}});
  } else {
    const int64_t next = found->first_position + static_cast<int64_t>(found->rows.size());
    if (found + 1 != texts_.end() || position != next) {
      return absl::InvalidArgumentError(
          fmt::format("position {} of text {} does not follow what is there already ({} rows, next {})", position, text,
                      found->rows.size(), next));
    }
  }
  texts_.back().rows.push_back(row);
  return absl::OkStatus();
}

absl::Status DriftStatistics::Merge(const DriftStatistics& later) {
  DriftStatistics merged = *this;
  for (const TextDrift& text : later.texts_) {
    for (size_t i = 0; i < text.rows.size(); ++i) {
      QGPU_RETURN_IF_ERROR(merged.Append(text.name, text.first_position + static_cast<int64_t>(i), text.rows[i]));
    }
  }
  texts_ = std::move(merged.texts_);
  return absl::OkStatus();
}

int64_t DriftStatistics::Rows(const std::string& text) const {
  for (const TextDrift& known : texts_) {
    if (known.name == text) return static_cast<int64_t>(known.rows.size());
  }
  return 0;
}

DriftSummary DriftStatistics::Summarize() const { return SummaryOf(texts_); }
DriftSummary DriftStatistics::Summarize(const TextDrift& text) { return SummaryOf({&text, 1}); }

std::vector<WorstPosition> DriftStatistics::Worst(size_t count) const {
  std::vector<WorstPosition> worst;
  for (const TextDrift& text : texts_) {
    for (size_t i = 0; i < text.rows.size(); ++i) {
      worst.push_back({text.name, text.first_position + static_cast<int64_t>(i), text.rows[i].kl});
    }
  }
  std::stable_sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) { return a.kl > b.kl; });
  worst.resize(std::min(count, worst.size()));
  return worst;
}

ordered_json DriftStatistics::ToJson() const {
  ordered_json texts = ordered_json::array();
  for (const TextDrift& text : texts_) {
    ordered_json one = {{"name", text.name}, {"first_position", static_cast<uint64_t>(text.first_position)}};
    for (const Column& column : kColumns) {
      ordered_json values = ordered_json::array();
      for (const RowDrift& row : text.rows) values.push_back(column.get(row));
      one[column.name] = std::move(values);
    }
    texts.push_back(std::move(one));
  }
  return {{"texts", std::move(texts)}};
}

absl::StatusOr<DriftStatistics> DriftStatistics::FromJson(const json& json) {
  if (!json.is_object() || !json.contains("texts") || !json["texts"].is_array()) {
    return absl::InvalidArgumentError("there is no list of texts");
  }
  DriftStatistics statistics;
  for (const auto& text : json["texts"]) {
    const std::string where = fmt::format("text {}:", statistics.texts_.size());
    QGPU_ASSIGN_OR_RETURN(TextDrift drift, ReadText(text, where));
    if (statistics.Rows(drift.name) > 0) return Malformed(where, "has the name of an earlier one");
    if (!drift.rows.empty()) statistics.texts_.push_back(std::move(drift));
  }
  return statistics;
}

ordered_json SummaryToJson(const DriftSummary& summary) {
  return {{"positions", summary.positions},
          {"kl_mean", summary.mean},
          {"kl_mean_95", {summary.mean_interval.low, summary.mean_interval.high}},
          {"kl_median", summary.median},
          {"kl_p90", summary.p90},
          {"kl_p99", summary.p99},
          {"kl_p999", summary.p999},
          {"kl_max", summary.max},
          {"kl_min", summary.min},
          {"same_top1", summary.same_top},
          {"top5_overlap", summary.top_overlap},
          {"base_perplexity", summary.base_perplexity},
          {"merged_perplexity", summary.merged_perplexity},
          {"machine_share_mean", summary.machine_share},
          {"machine_share_max", summary.machine_share_max}};
}

}  // namespace qgpu
