#include "evals/drift/row_drift.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace qgpu {
namespace {

// log(sum(exp(x))), with the largest taken out so that nothing overflows. 0 of an empty sum is told apart by callers.
struct LogSum {
  double largest = 0, scaled = 0;  // sum(exp(x)) = exp(largest) * scaled

  explicit LogSum(std::span<const float> logits) {
    if (logits.empty()) return;
    largest = *std::max_element(logits.begin(), logits.end());
    for (const float x : logits) scaled += std::exp(double{x} - largest);
  }
  // log(exp(x) / sum)
  double LogShare(float x) const { return (double{x} - largest) - std::log(scaled); }
};

absl::Status CheckFinite(std::span<const float> logits, const char* whose) {
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) continue;
    return absl::DataLossError(fmt::format("the {}'s logit of id {} is {}, no finite number", whose, id, logits[id]));
  }
  return absl::OkStatus();
}

using Top = std::array<int64_t, kTopOverlap>;  // -1 where the vocabulary is smaller

Top Likeliest(std::span<const float> logits) {
  Top top;
  top.fill(-1);
  for (size_t id = 0; id < logits.size(); ++id) {
    int64_t candidate = static_cast<int64_t>(id);
    for (int64_t& place : top) {
      if (place >= 0 && logits[place] >= logits[candidate]) continue;  // of equal ones the first stays
      std::swap(place, candidate);
      if (candidate < 0) break;
    }
  }
  return top;
}

int Overlap(const Top& a, const Top& b) {
  int count = 0;
  for (const int64_t id : a) count += id >= 0 && std::find(b.begin(), b.end(), id) != b.end();
  return count;
}

}  // namespace

absl::StatusOr<RowDrift> CompareRows(std::span<const float> base, std::span<const float> merged, int64_t next_token,
                                     const char* merged_name) {
  if (base.empty() || merged.size() < base.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} logits of the merged model do not cover {} of the base", merged.size(), base.size()));
  }
  if (next_token < 0 || next_token >= static_cast<int64_t>(base.size())) {
    return absl::InvalidArgumentError(fmt::format("token id {} is outside 0 to {}", next_token, base.size() - 1));
  }
  QGPU_RETURN_IF_ERROR(CheckFinite(base, "base model"));
  QGPU_RETURN_IF_ERROR(CheckFinite(merged, merged_name));

  const std::span<const float> text = merged.first(base.size()), machine = merged.subspan(base.size());
  const LogSum base_sum(base), text_sum(text), machine_sum(machine);
  RowDrift row;
  // Differences of logits first: those of equal rows cancel exactly.
  const double offset = (base_sum.largest - text_sum.largest) + (std::log(base_sum.scaled) - std::log(text_sum.scaled));
  for (size_t id = 0; id < base.size(); ++id) {
    const double probability = std::exp(double{base[id]} - base_sum.largest) / base_sum.scaled;
    if (probability > 0) row.kl += probability * ((double{base[id]} - double{text[id]}) - offset);
  }
  if (!machine.empty()) {
    // machine / (machine + text); a ratio that is too large for a double makes it 1.
    const double ratio = std::exp(text_sum.largest - machine_sum.largest) * (text_sum.scaled / machine_sum.scaled);
    row.machine_share = 1 / (1 + ratio);
  }
  row.base_surprise = -base_sum.LogShare(base[next_token]);
  row.merged_surprise = -LogSum(merged).LogShare(merged[next_token]);
  const Top base_top = Likeliest(base), text_top = Likeliest(text);
  row.same_top = base_top[0] == text_top[0];
  row.top_overlap = Overlap(base_top, text_top);
  return row;
}

}  // namespace qgpu
