// A text model of the tests: logits that depend on every id fed so far, and on nothing else.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/prng.h"
#include "model/forward/text_model.h"

namespace qgpu {

class TestTextModel : public TextModel {
 public:
  // `noise` is added to the logits of the same history without noise.
  TestTextModel(int64_t vocabulary, int64_t machine_ids, double noise)
      : text_(vocabulary), machine_(machine_ids), noise_(noise) {}

  void Reset() override {
    history_ = 1;
    positions_ = 0;
    ++resets;
  }
  int64_t vocabulary() const override { return text_ + machine_; }
  absl::Status CheckIds(std::span<const int64_t>) const override { return absl::OkStatus(); }

  absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t> ids) override {
    if (fail_at >= 0 && positions_ <= fail_at && fail_at < positions_ + static_cast<int64_t>(ids.size())) {
      return absl::ResourceExhaustedError("no memory");
    }
    std::vector<float> logits;
    for (const int64_t id : ids) {
      history_ = SplitMix64(history_ * 31 + static_cast<uint64_t>(id)).Next();
      SplitMix64 random(history_), other(history_ + 1);
      for (int64_t i = 0; i < text_; ++i) {
        logits.push_back(static_cast<float>(4 * random.Uniform() + noise_ * other.Uniform()));
      }
      logits.insert(logits.end(), machine_, -50.0f);
      if (positions_ == bad_at) logits[logits.size() - 1] = static_cast<float>(1e300 * 1e300);
      ++positions_;
      ++fed;
    }
    return logits;
  }
  absl::Status StreamLogits(std::span<const int64_t> ids, const LogitsSink& sink) override {
    QGPU_ASSIGN_OR_RETURN(const std::vector<float> logits, Logits(ids));
    return sink(logits);
  }

  int resets = 0, fed = 0;
  int64_t bad_at = -1, fail_at = -1;

 private:
  int64_t text_, machine_;
  double noise_;
  uint64_t history_ = 1;
  int64_t positions_ = 0;
};

}  // namespace qgpu
