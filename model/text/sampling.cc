#include "model/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qgpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

absl::Status CheckSamplingOptions(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return absl::InvalidArgumentError(
        fmt::format("temperature {} is not a number of 0 (greedy) or more", options.temperature));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(fmt::format("top_k {} is not a number of 0 (all tokens) or more", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(fmt::format("top_p {} is not above 0 and at most 1", options.top_p));
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    return absl::InvalidArgumentError(fmt::format("min_p {} is not between 0 and 1", options.min_p));
  }
  if (!(options.repetition_penalty > 0) || !std::isfinite(options.repetition_penalty)) {
    return absl::InvalidArgumentError(
        fmt::format("repetition_penalty {} is not a number above 0 (1: none)", options.repetition_penalty));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> Sampler::Next(std::span<const float> logits, std::span<const int32_t> seen) {
  if (logits.empty()) return absl::InvalidArgumentError("there are no logits to choose from");
  if (options_.repetition_penalty != 1 && !seen.empty()) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    penalized_.assign(logits.begin(), logits.end());
    for (const int32_t id : seen) {
      if (id < 0 || static_cast<size_t>(id) >= penalized_.size()) continue;
      float& logit = penalized_[static_cast<size_t>(id)];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
    logits = penalized_;
  }
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == -kNever) {
      return absl::InvalidArgumentError(fmt::format("the logit of token {} is {}", i, logits[i]));
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == kNever) return absl::InvalidArgumentError("every token's logit is minus infinity");
  if (options_.temperature == 0) return static_cast<int32_t>(best);

  KeepTopK(logits);
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = std::exp((candidate.weight - double{logits[best]}) / options_.temperature);
    total += candidate.weight;
  }
  for (Candidate& candidate : candidates_) candidate.weight /= total;
  if (options_.top_p < 1) KeepTopP();
  if (options_.min_p > 0) KeepMinP();
  double kept = 0;
  for (const Candidate& candidate : candidates_) kept += candidate.weight;
  double point = random_.Uniform() * kept;
  for (const Candidate& candidate : candidates_) {
    point -= candidate.weight;
    if (point < 0) return candidate.index;
  }
  // Rounding: the point lies at the very end. The last candidate with any weight has it.
  const auto last =
      std::find_if(candidates_.rbegin(), candidates_.rend(), [](const Candidate& c) { return c.weight > 0; });
  return last->index;
}

void Sampler::KeepTopK(std::span<const float> logits) {
  float least = kNever;
  const auto k = static_cast<uint64_t>(options_.top_k);
  if (k > 0 && k < logits.size()) {
    std::vector<float> sorted(logits.begin(), logits.end());
    const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
    least = *kth;
  }
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least && logits[i] != kNever) candidates_.push_back({double{logits[i]}, static_cast<int32_t>(i)});
  }
}

void Sampler::KeepMinP() {
  double most = 0;
  for (const Candidate& candidate : candidates_) most = std::max(most, candidate.weight);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.weight < options_.min_p * most; });
}

// The tail of at most 1 - top_p goes. Whatever is below (1 - top_p) / n is part of it, so only the rest is sorted.
void Sampler::KeepTopP() {
  const double tail = 1 - options_.top_p;
  const double surely_tail = tail / static_cast<double>(candidates_.size());
  std::vector<Candidate> head;
  double gone = 0;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight < surely_tail) {
      gone += candidate.weight;
    } else {
      head.push_back(candidate);
    }
  }
  std::sort(head.begin(), head.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.index < b.index;
  });
  while (head.size() > 1 && gone + head.back().weight <= tail) {
    gone += head.back().weight;
    head.pop_back();
  }
  std::sort(head.begin(), head.end(), [](const Candidate& a, const Candidate& b) { return a.index < b.index; });
  candidates_ = std::move(head);
}

}  // namespace qgpu
