// Text turns and drift between the messages and the worker's own types. What comes from the wire is checked here, up to
// what only the base's files can tell.
#pragma once

#include "common/status.h"
#include "qgpu/v1/text.pb.h"
#include "worker/text_host.h"

namespace qgpu {

// Longest text of one request, over all its strings.
inline constexpr size_t kMaxRequestText = size_t{1} << 20;

// kInvalidArgument, naming field and limit.
absl::StatusOr<TextTurn> FromMessage(const v1::TextTurn& message);
absl::StatusOr<DriftRequest> FromMessage(const v1::MeasureDriftRequest& message);
// Host tokens of one launch: kInvalidArgument for none, too many, ids that are none, a budget outside the limits.
absl::StatusOr<std::vector<int32_t>> CheckedHostTokens(const v1::Tokens& host_tokens, uint64_t token_budget);

v1::TextTurnResult ToMessage(const GenerateResult& result);
v1::DriftStart ToMessage(const DriftBeginning& beginning);
v1::DriftRows ToMessage(const DriftPiece& piece);
v1::LaunchEnd ToMessage(LaunchEnd end);
// Everything but how many tokens were fed and how long it waited.
v1::LaunchResult ToMessage(const RunnerOutcome& outcome);

}  // namespace qgpu
