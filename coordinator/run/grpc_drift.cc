#include "coordinator/run/grpc_drift.h"

#include <limits>
#include <utility>

#include "proto/convert.h"
#include "proto/limits.h"

namespace qgpu {
namespace {

absl::Status Violation(const std::string& what) {
  return absl::FailedPreconditionError("breaks the protocol: " + what);
}

// Every column has an entry a row; those that may be missing have none at all.
absl::Status CheckColumns(const v1::DriftRows& rows) {
  const int count = rows.kl_size();
  const std::pair<const char*, int> always[] = {{"machine_share", rows.machine_share_size()},
                                                {"base_surprise", rows.base_surprise_size()},
                                                {"merged_surprise", rows.merged_surprise_size()},
                                                {"same_top", rows.same_top_size()},
                                                {"top_overlap", rows.top_overlap_size()}};
  for (const auto& [name, size] : always) {
    if (size != count) return Violation(fmt::format("{} of {}, {} of kl in one message", size, name, count));
  }
  const int noise = rows.noise_kl_size();
  const std::pair<const char*, int> sometimes[] = {{"predicted", rows.predicted_size()}, {"noise_kl", noise}};
  for (const auto& [name, size] : sometimes) {
    if (size != count && size != 0)
      return Violation(fmt::format("{} of {}, {} of kl in one message", size, name, count));
  }
  const std::pair<const char*, int> with_noise[] = {{"noise_base_surprise", rows.noise_base_surprise_size()},
                                                    {"noise_surprise", rows.noise_surprise_size()},
                                                    {"noise_same_top", rows.noise_same_top_size()},
                                                    {"noise_top_overlap", rows.noise_top_overlap_size()}};
  for (const auto& [name, size] : with_noise) {
    if (size != noise) return Violation(fmt::format("{} of {}, {} of noise_kl in one message", size, name, noise));
  }
  return absl::OkStatus();
}

// So that the conversions below keep every number.
absl::Status CheckRange(const char* name, uint64_t wire, uint64_t most) {
  if (wire <= most) return absl::OkStatus();
  return Violation(fmt::format("{} is {}, no number from 0 to {}", name, wire, most));
}
constexpr uint64_t kMostCount = std::numeric_limits<int64_t>::max();

absl::Status CheckRanges(const v1::DriftRows& rows) {
  QGPU_RETURN_IF_ERROR(CheckRange("first_position", rows.first_position(), kMostCount));
  for (const uint32_t overlap : rows.top_overlap()) {
    QGPU_RETURN_IF_ERROR(CheckRange("top_overlap", overlap, kTopOverlap));
  }
  for (const uint32_t overlap : rows.noise_top_overlap()) {
    QGPU_RETURN_IF_ERROR(CheckRange("noise_top_overlap", overlap, kTopOverlap));
  }
  return absl::OkStatus();
}

DriftChunk FromMessage(const v1::DriftRows& message) {
  DriftChunk chunk;
  chunk.first_position = static_cast<int64_t>(message.first_position());
  for (int i = 0; i < message.kl_size(); ++i) {
    RowDrift& row = chunk.rows.emplace_back();
    row.kl = message.kl(i);
    row.machine_share = message.machine_share(i);
    row.base_surprise = message.base_surprise(i);
    row.merged_surprise = message.merged_surprise(i);
    row.same_top = message.same_top(i);
    row.top_overlap = static_cast<int>(message.top_overlap(i));
  }
  for (int i = 0; i < message.noise_kl_size(); ++i) {
    RowDrift& row = chunk.noise.emplace_back();
    row.kl = message.noise_kl(i);
    row.base_surprise = message.noise_base_surprise(i);
    row.merged_surprise = message.noise_surprise(i);
    row.same_top = message.noise_same_top(i);
    row.top_overlap = static_cast<int>(message.noise_top_overlap(i));
  }
  chunk.predicted.assign(message.predicted().begin(), message.predicted().end());
  return chunk;
}

DriftStart FromMessage(const v1::DriftStart& message) {
  DriftStart start;
  start.positions = static_cast<int64_t>(message.positions());
  start.measurement = message.measurement();
  start.token_source = message.token_source();
  start.reference = message.reference();
  start.merged = message.merged();
  start.has_noise_floor = message.has_noise_floor();
  return start;
}

absl::Status TakeTokens(const v1::Tokens& tokens, DriftSink& sink) {
  std::vector<int32_t> ids;
  if (const auto taken = AppendTokens(tokens, /*text_allowed=*/true, kChunkTokens, ids); !taken.ok()) {
    return Violation(std::string(taken.message()));
  }
  return sink.OnLaunchTokens(ids);
}

}  // namespace

v1::MeasureDriftRequest ToMessage(const DriftJob& job) {
  v1::MeasureDriftRequest request;
  request.set_probe(job.probe);
  request.set_text_name(job.text_name);
  request.set_text(job.text);
  request.set_positions(static_cast<uint32_t>(job.positions));
  request.set_chunk(static_cast<uint32_t>(job.chunk));
  request.set_first_position(static_cast<uint64_t>(job.first_position));
  request.set_measurement(job.measurement);
  if (!job.host_ids.empty()) {
    *request.mutable_host_tokens() = ToMessage(std::span<const int32_t>(job.host_ids));
    request.set_token_budget(static_cast<uint64_t>(job.token_budget));
  }
  return request;
}

absl::Status TakeDriftReply(const v1::MeasureDriftReply& reply, DriftSink& sink, std::optional<DriftEnd>& end) {
  if (end.has_value()) return Violation("a message after the last one");
  switch (reply.part_case()) {
    case v1::MeasureDriftReply::kStart:
      QGPU_RETURN_IF_ERROR(CheckRange("positions", reply.start().positions(), kMostCount));
      return sink.OnStart(FromMessage(reply.start()));
    case v1::MeasureDriftReply::kTokens:
      return TakeTokens(reply.tokens(), sink);
    case v1::MeasureDriftReply::kLaunchEnd:
      return sink.OnLaunchEnd();
    case v1::MeasureDriftReply::kRows:
      QGPU_RETURN_IF_ERROR(CheckColumns(reply.rows()));
      QGPU_RETURN_IF_ERROR(CheckRanges(reply.rows()));
      return sink.OnRows(FromMessage(reply.rows()));
    case v1::MeasureDriftReply::kEnd:
      QGPU_RETURN_IF_ERROR(CheckRange("feed_ns", reply.end().feed_ns(), kMostCount));
      end = DriftEnd{static_cast<int64_t>(reply.end().feed_ns())};
      return absl::OkStatus();
    default:
      return Violation("a message without a part that is known here");
  }
}

}  // namespace qgpu
