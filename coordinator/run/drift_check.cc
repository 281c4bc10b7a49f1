#include "coordinator/run/drift_check.h"

#include <algorithm>
#include <cmath>

#include "reports/printable.h"

namespace qgpu {
namespace {

constexpr size_t kMaxMeasurementBytes = 128;  // a hash in hexadecimal takes 64
constexpr size_t kMaxDescriptionBytes = 200;
constexpr size_t kMaxPredictedBytes = 64;  // one token, for people
// A token has at least one byte of the text, and Unicode's composed form has at most three times the text's.
constexpr int64_t kMostTokensOfByte = 3;
// The longest token of the vocabularies in use is 128 blanks; no text has longer ones from its first to its last byte.
constexpr int64_t kMostBytesOfToken = 128;
constexpr double kRounding = 1e-9;  // below 0, of what cannot be negative
constexpr double kMostNats = 1e6;   // far above what the logits of a model give

absl::Status Violation(const std::string& what) {
  return absl::FailedPreconditionError("breaks the protocol: " + what);
}

std::string CutAndPrintable(std::string text, size_t most) {
  if (text.size() > most) {
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
    text.resize(most);
  }
  return Printable(text);
}

bool IsMeasurement(const std::string& text) {
  return !text.empty() && text.size() <= kMaxMeasurementBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// What is wrong with the numbers of a row; empty: nothing.
std::string WrongNumber(const RowDrift& row) {
  const struct {
    const char* name;
    double value, least, most;
  } numbers[] = {{"kl", row.kl, -kRounding, kMostNats},
                 {"machine_share", row.machine_share, 0, 1},
                 {"base_surprise", row.base_surprise, -kRounding, kMostNats},
                 {"merged_surprise", row.merged_surprise, -kRounding, kMostNats},
                 {"top_overlap", static_cast<double>(row.top_overlap), 0, kTopOverlap}};
  for (const auto& number : numbers) {
    if (number.value >= number.least && number.value <= number.most) continue;  // false for what is no number
    return fmt::format("{} is {}, no number from {} to {}", number.name, number.value, number.least, number.most);
  }
  return "";
}

// The fewest positions that a text can have; the last token is only predicted.
int64_t LeastPositions(const DriftJob& job) {
  const int64_t tokens = (std::ssize(job.text) + kMostBytesOfToken - 1) / kMostBytesOfToken;
  const int64_t least = std::max<int64_t>(tokens - 1, 1);
  return job.positions > 0 ? std::min(job.positions, least) : least;
}

}  // namespace

absl::Status DriftLengths::Agree(const std::string& text, const std::string& base, int64_t positions) {
  const std::lock_guard lock(mutex_);
  const int64_t first = first_.try_emplace({text, base}, positions).first->second;
  if (positions == first) return absl::OkStatus();
  return Violation(
      fmt::format("a measurement of {} positions, another one of the same text and base had {}", positions, first));
}

absl::Status DriftCheck::Start(DriftStart& start) {
  if (phase_ != Phase::kStart) return Violation("a second start");
  const int64_t most = job_.positions > 0 ? job_.positions : kMostTokensOfByte * std::ssize(job_.text);
  const int64_t least = LeastPositions(job_);
  if (start.positions < least || start.positions > most) {
    return Violation(fmt::format("a measurement of {} positions; a text of {} bytes has {} to {} of what was asked for",
                                 start.positions, job_.text.size(), least, most));
  }
  if (!IsMeasurement(start.measurement)) {
    return Violation(fmt::format("the measurement's hash is not 1 to {} printable characters", kMaxMeasurementBytes));
  }
  if (!job_.measurement.empty() && start.measurement != job_.measurement) {
    return Violation("it takes up another measurement than it was asked to");
  }
  if (job_.first_position >= start.positions) {
    return Violation(fmt::format("a measurement of {} positions, of which {} are known already", start.positions,
                                 job_.first_position));
  }
  if (needs_noise_floor_ && !start.has_noise_floor)
    return Violation("no noise floor, which the probe's bound is about");
  for (std::string* text : {&start.token_source, &start.reference, &start.merged}) {
    *text = CutAndPrintable(std::move(*text), kMaxDescriptionBytes);
  }
  has_noise_floor_ = start.has_noise_floor;
  positions_ = start.positions;
  next_ = job_.first_position;
  phase_ = job_.host_ids.empty() ? Phase::kRows : Phase::kLaunch;
  return absl::OkStatus();
}

absl::Status DriftCheck::Launch() {
  if (phase_ == Phase::kLaunch) return absl::OkStatus();
  if (phase_ == Phase::kStart) return Violation("tokens of a launch before the start");
  return Violation(job_.host_ids.empty() ? "tokens of a launch, none was asked for" : "tokens after the launch's end");
}

absl::Status DriftCheck::LaunchEnd() {
  QGPU_RETURN_IF_ERROR(Launch());
  phase_ = Phase::kRows;
  return absl::OkStatus();
}

absl::Status DriftCheck::Rows(DriftChunk& chunk) {
  if (phase_ == Phase::kStart) return Violation("rows before the start");
  if (phase_ == Phase::kLaunch) return Violation("rows before the launch has ended");
  if (chunk.rows.empty()) return Violation("a message without rows");
  if (chunk.first_position != next_) {
    return Violation(fmt::format("rows from position {} on, {} is the next one", chunk.first_position, next_));
  }
  const int64_t count = std::ssize(chunk.rows);
  if (count > positions_ - next_) {
    return Violation(fmt::format("{} rows from position {} on, the measurement has {}", count, next_, positions_));
  }
  if (std::ssize(chunk.noise) != (has_noise_floor_ ? count : 0)) {
    return Violation(fmt::format("{} rows of the noise floor, it {}", chunk.noise.size(),
                                 has_noise_floor_ ? fmt::format("has {}", count) : "is not measured"));
  }
  if (!chunk.predicted.empty() && std::ssize(chunk.predicted) != count) {
    return Violation(fmt::format("{} predicted tokens of {} rows", chunk.predicted.size(), count));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (const std::string wrong = WrongNumber(chunk.rows[i]); !wrong.empty()) {
      return Violation(fmt::format("position {}: {}", next_ + i, wrong));
    }
    if (const std::string wrong = has_noise_floor_ ? WrongNumber(chunk.noise[i]) : ""; !wrong.empty()) {
      return Violation(fmt::format("position {}: noise floor: {}", next_ + i, wrong));
    }
  }
  chunk.predicted.resize(static_cast<size_t>(count));
  for (std::string& text : chunk.predicted) text = CutAndPrintable(std::move(text), kMaxPredictedBytes);
  next_ += count;
  return absl::OkStatus();
}

absl::Status DriftCheck::End() const {
  if (phase_ == Phase::kStart) return Violation("it ended without a start");
  if (phase_ == Phase::kLaunch) return Violation("it ended within the launch");
  if (next_ == positions_) return absl::OkStatus();
  return Violation(fmt::format("it ended after {} of {} positions", next_, positions_));
}

}  // namespace qgpu
