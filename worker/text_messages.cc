#include "worker/text_messages.h"

#include <limits>

#include "model/text/utf8.h"
#include "proto/convert.h"
#include "proto/limits.h"

namespace qgpu {
namespace {

constexpr uint32_t kMaxChunk = 2048;
constexpr size_t kMaxNameBytes = 4096;

absl::Status CheckText(const std::string& text, const std::string& what) {
  if (text.size() > kMaxRequestText) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} bytes; this worker takes at most {}", what, text.size(), kMaxRequestText));
  }
  return CheckUtf8(text, what);
}

absl::StatusOr<ChatInput> FromMessage(const v1::Messages& message) {
  ChatInput chat;
  chat.enable_thinking = message.enable_thinking();
  size_t bytes = 0;
  for (const v1::Message& one : message.messages()) {
    bytes += one.role().size() + one.content().size();
    chat.messages.push_back({one.role(), one.content()});
  }
  if (chat.messages.empty()) return absl::InvalidArgumentError("a chat without messages");
  if (bytes > kMaxRequestText) {
    return absl::InvalidArgumentError(
        fmt::format("the messages have {} bytes; this worker takes at most {}", bytes, kMaxRequestText));
  }
  return chat;
}

absl::StatusOr<std::vector<int32_t>> FromMessage(const v1::TextIds& message) {
  std::vector<int32_t> ids;
  ids.reserve(message.ids_size());
  for (const uint32_t id : message.ids()) {
    if (id > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
      return absl::InvalidArgumentError(fmt::format("id {} (number {}) is none of text", id, ids.size() + 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

SamplingOptions FromMessage(const v1::SamplingOptions& message) {
  SamplingOptions options;
  options.temperature = message.temperature();
  options.top_k = message.top_k();
  if (message.top_p() != 0) options.top_p = message.top_p();
  if (message.repetition_penalty() != 0) options.repetition_penalty = message.repetition_penalty();
  options.seed = message.seed();
  return options;
}

void AddRow(const RowDrift& row, v1::DriftRows& rows) {
  rows.add_kl(row.kl);
  rows.add_machine_share(row.machine_share);
  rows.add_base_surprise(row.base_surprise);
  rows.add_merged_surprise(row.merged_surprise);
  rows.add_same_top(row.same_top);
  rows.add_top_overlap(static_cast<uint32_t>(row.top_overlap));
}

void AddNoise(const RowDrift& row, v1::DriftRows& rows) {
  rows.add_noise_kl(row.kl);
  rows.add_noise_base_surprise(row.base_surprise);
  rows.add_noise_surprise(row.merged_surprise);
  rows.add_noise_same_top(row.same_top);
  rows.add_noise_top_overlap(static_cast<uint32_t>(row.top_overlap));
}

v1::TextTurnResult::End ToMessage(GenerateEnd end) {
  switch (end) {
    case GenerateEnd::kFed:
      return v1::TextTurnResult::END_FED;
    case GenerateEnd::kStopToken:
      return v1::TextTurnResult::END_STOP_TOKEN;
    case GenerateEnd::kStopText:
      return v1::TextTurnResult::END_STOP_TEXT;
    case GenerateEnd::kMaxTokens:
      return v1::TextTurnResult::END_MAX_TOKENS;
    case GenerateEnd::kMachineToken:
      return v1::TextTurnResult::END_MACHINE_TOKEN;
    case GenerateEnd::kContextFull:
      return v1::TextTurnResult::END_CONTEXT_FULL;
    case GenerateEnd::kCancelled:
      break;  // an error of the call
  }
  return v1::TextTurnResult::END_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<TextTurn> FromMessage(const v1::TextTurn& message) {
  TextTurn turn;
  switch (message.input_case()) {
    case v1::TextTurn::kText:
      QGPU_RETURN_IF_ERROR(CheckText(message.text(), "the text"));
      turn.input = message.text();
      break;
    case v1::TextTurn::kIds: {
      QGPU_ASSIGN_OR_RETURN(turn.input, FromMessage(message.ids()));
      break;
    }
    case v1::TextTurn::kChat: {
      QGPU_ASSIGN_OR_RETURN(turn.input, FromMessage(message.chat()));
      break;
    }
    case v1::TextTurn::INPUT_NOT_SET:
      return absl::InvalidArgumentError("a text turn without text, ids or chat");
  }
  turn.max_tokens = message.max_tokens();
  turn.stop.assign(message.stop().begin(), message.stop().end());
  turn.ignore_stop_tokens = message.ignore_stop_tokens();
  if (message.has_sampling()) turn.sampling = FromMessage(message.sampling());
  GenerateOptions options;
  options.max_tokens = turn.max_tokens;
  options.stop = turn.stop;
  if (turn.sampling) options.sampling = *turn.sampling;
  QGPU_RETURN_IF_ERROR(CheckGenerateOptions(options));
  return turn;
}

absl::StatusOr<DriftRequest> FromMessage(const v1::MeasureDriftRequest& message) {
  DriftRequest request;
  QGPU_ASSIGN_OR_RETURN(request.probe, DriftProbeFromName(message.probe()));
  if (message.text_name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(fmt::format("the text's name has {} bytes; this worker takes at most {}",
                                                  message.text_name().size(), kMaxNameBytes));
  }
  QGPU_RETURN_IF_ERROR(CheckUtf8(message.text_name(), "the text's name"));
  QGPU_RETURN_IF_ERROR(CheckText(message.text(), "the text"));
  request.text_name = message.text_name();
  request.text = message.text();
  if (message.chunk() < 1 || message.chunk() > kMaxChunk) {
    return absl::InvalidArgumentError(
        fmt::format("a chunk of {} positions; this worker takes 1 to {}", message.chunk(), kMaxChunk));
  }
  request.positions = message.positions();
  request.chunk = message.chunk();
  if (message.first_position() % message.chunk() != 0 ||
      message.first_position() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        fmt::format("first_position {} is no position that is a multiple of the chunk, {}", message.first_position(),
                    message.chunk()));
  }
  request.first_position = static_cast<int64_t>(message.first_position());
  request.measurement = message.measurement();
  if (!request.probe.after_launch) {
    if (message.host_tokens().ids_size() == 0) return request;
    return absl::InvalidArgumentError(
        fmt::format("host tokens for the probe {}, which has no launch", request.probe.Name()));
  }
  QGPU_ASSIGN_OR_RETURN(request.host_ids, CheckedHostTokens(message.host_tokens(), message.token_budget()));
  request.token_budget = static_cast<int64_t>(message.token_budget());
  return request;
}

absl::StatusOr<std::vector<int32_t>> CheckedHostTokens(const v1::Tokens& host_tokens, uint64_t token_budget) {
  if (token_budget < 1 || token_budget > static_cast<uint64_t>(kMaxTokenBudget)) {
    return absl::InvalidArgumentError(
        fmt::format("a token budget of {}; this worker allows 1 to {}", token_budget, kMaxTokenBudget));
  }
  std::vector<int32_t> host_ids;
  QGPU_RETURN_IF_ERROR(AppendTokens(host_tokens, /*text_allowed=*/false, kMaxHostTokens, host_ids));
  if (host_ids.empty()) return absl::InvalidArgumentError("a launch without host tokens");
  return host_ids;
}

v1::TextTurnResult ToMessage(const GenerateResult& result) {
  v1::TextTurnResult message;
  message.set_end(ToMessage(result.end));
  message.set_fed_tokens(static_cast<uint64_t>(result.fed_tokens));
  message.set_written_tokens(static_cast<uint64_t>(result.written_tokens));
  message.set_prefill_ns(static_cast<uint64_t>(result.prefill.count()));
  message.set_decode_ns(static_cast<uint64_t>(result.decode.count()));
  return message;
}

v1::DriftStart ToMessage(const DriftBeginning& beginning) {
  v1::DriftStart message;
  message.set_positions(static_cast<uint64_t>(beginning.positions));
  message.set_measurement(beginning.measurement);
  message.set_token_source(beginning.token_source);
  message.set_reference(beginning.reference);
  message.set_merged(beginning.merged);
  message.set_has_noise_floor(beginning.has_noise_floor);
  return message;
}

v1::DriftRows ToMessage(const DriftPiece& piece) {
  v1::DriftRows message;
  message.set_first_position(static_cast<uint64_t>(piece.first_position));
  for (const RowDrift& row : piece.drift) AddRow(row, message);
  for (const RowDrift& row : piece.noise_floor) AddNoise(row, message);
  for (const std::string& text : piece.predicted) message.add_predicted(text);
  return message;
}

v1::LaunchEnd ToMessage(LaunchEnd end) {
  switch (end) {
    case LaunchEnd::kDone:
      return v1::LAUNCH_END_DONE;
    case LaunchEnd::kTrap:
      return v1::LAUNCH_END_TRAP;
    case LaunchEnd::kBudget:
      return v1::LAUNCH_END_BUDGET;
  }
  return v1::LAUNCH_END_UNSPECIFIED;
}

v1::LaunchResult ToMessage(const RunnerOutcome& outcome) {
  v1::LaunchResult result;
  result.set_end(ToMessage(outcome.end));
  *result.mutable_image() = ToMessage(outcome.state);
  result.set_fault(outcome.fault);
  v1::LaunchCounters& counters = *result.mutable_counters();
  counters.set_forward_passes(static_cast<uint64_t>(outcome.forward_passes));
  counters.set_prefill_ns(static_cast<uint64_t>(outcome.prefill_ns));
  counters.set_decode_ns(static_cast<uint64_t>(outcome.decode_ns));
  counters.set_read_ns(static_cast<uint64_t>(outcome.read_ns));
  return result;
}

}  // namespace qgpu
