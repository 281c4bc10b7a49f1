// Drift of a merged model from its base over texts: every position kept, in order, and what is said about them all.
// Accumulated position by position or in parts that are put together; goes into JSON and comes back the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "evals/drift/resampling.h"
#include "evals/drift/row_drift.h"
#include "nlohmann/json.hpp"

namespace qgpu {

// Positions of one text: that of row i is i plus the first's.
struct TextDrift {
  std::string name;
  int64_t first_position = 0;
  std::vector<RowDrift> rows;
};

struct DriftSummary {
  int64_t positions = 0;
  // KL(base || merged), nats.
  double mean = 0, median = 0, p90 = 0, p99 = 0, p999 = 0, max = 0, min = 0;
  Interval mean_interval;                             // 95 %, BootstrapMean
  double same_top = 0;                                // share of the positions
  double top_overlap = 0;                             // mean share of the base's kTopOverlap likeliest
  double base_perplexity = 0, merged_perplexity = 0;  // exp of the mean surprise
  double machine_share = 0, machine_share_max = 0;
};

struct WorstPosition {
  std::string text;
  int64_t position = 0;
  double kl = 0;
};

class DriftStatistics {
 public:
  // Adds one row. Texts follow one another; kInvalidArgument where `position` does not follow the text's last one, or
  // the text is one that others followed already. A text may start anywhere, for parts.
  absl::Status Append(const std::string& text, int64_t position, const RowDrift& row);
  // Adds a later part: its first text goes on where this one's last stopped, or is a new one. Errors of Append; then
  // nothing is added.
  absl::Status Merge(const DriftStatistics& later);

  const std::vector<TextDrift>& texts() const { return texts_; }
  // Rows of the text so far.
  int64_t Rows(const std::string& text) const;

  // Over all texts, or over one. All zeros where there is no position.
  DriftSummary Summarize() const;
  static DriftSummary Summarize(const TextDrift& text);
  // The `count` with the largest KL, the worst first; of equal ones the earlier.
  std::vector<WorstPosition> Worst(size_t count) const;

  nlohmann::ordered_json ToJson() const;
  // kInvalidArgument, saying where, for what ToJson does not write: other lengths, numbers that are none or outside
  // their range.
  static absl::StatusOr<DriftStatistics> FromJson(const nlohmann::json& json);

 private:
  std::vector<TextDrift> texts_;
};

nlohmann::ordered_json SummaryToJson(const DriftSummary& summary);

}  // namespace qgpu
