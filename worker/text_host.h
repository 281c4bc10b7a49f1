// What a worker's service has conversations and measures drift with: a base and its merged models, or in tests
// something that pretends to be them. One call at a time, launches of the LaunchRunner beside it included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/status.h"
#include "evals/drift/probe.h"
#include "evals/drift/row_drift.h"
#include "model/generate/text_generator.h"
#include "model/text/chat_template.h"
#include "worker/launch_runner.h"

namespace qgpu {

struct ChatInput {
  std::vector<ChatMessage> messages;
  bool enable_thinking = false;
};

// As v1::TextTurn says.
struct TextTurn {
  std::variant<std::string, std::vector<int32_t>, ChatInput> input;
  int64_t max_tokens = 0;
  std::optional<SamplingOptions> sampling;  // nothing: as the base wants it
  std::vector<std::string> stop;
  bool ignore_stop_tokens = false;
};

class TextConversation {
 public:
  virtual ~TextConversation() = default;

  // Feeds the input after all turns before, then lets the model write. kInvalidArgument, before anything is fed, for
  // what the base cannot take (text that is no UTF-8, ids out of range, options out of range, more than the context has
  // room for); kFailedPrecondition for what it does not have (a tokenizer, a chat template); errors of the model and of
  // the callbacks.
  virtual absl::StatusOr<GenerateResult> Text(const TextTurn& turn, const GenerateCallbacks& callbacks) = 0;

  // As LaunchRunner::Run, after all turns before.
  virtual absl::StatusOr<RunnerOutcome> Launch(std::span<const int32_t> host_ids, int64_t token_budget,
                                               const TokenSink& sink) = 0;
};

// As v1::MeasureDriftRequest says.
struct DriftRequest {
  DriftProbe probe;
  std::string text_name, text;
  int64_t positions = 0, chunk = 128, first_position = 0;
  std::string measurement;
  std::vector<int32_t> host_ids;  // none where no launch precedes the text
  int64_t token_budget = 0;
};

// As v1::DriftStart says.
struct DriftBeginning {
  int64_t positions = 0;
  std::string measurement, token_source, reference, merged;
  bool has_noise_floor = false;
};

struct DriftPiece {
  int64_t first_position = 0;
  std::vector<RowDrift> drift;
  std::vector<RowDrift> noise_floor;   // as many, or none where it is not measured; machine_share means nothing
  std::vector<std::string> predicted;  // the next tokens as printable text
};

// In this order. Errors they return end the measurement and are its own.
struct DriftCallbacks {
  std::function<absl::Status(const DriftBeginning&)> on_start;
  TokenSink on_tokens;  // only where a launch precedes the text
  std::function<absl::Status(std::optional<LaunchEnd>)>
      on_launch_end;                                       // nothing: it wrote a token that is none of its own
  std::function<absl::Status(const DriftPiece&)> on_rows;  // from first_position of the request on
  std::function<bool()> is_cancelled;                      // asked before every forward pass
};

class TextHost {
 public:
  virtual ~TextHost() = default;

  // What MeasureDrift can measure.
  virtual std::vector<std::string> DriftProbes() const = 0;

  // A context without anything in it. There is one at a time, and none while drift is measured; the host outlives it.
  // kResourceExhausted where the models do not fit into memory.
  virtual absl::StatusOr<std::unique_ptr<TextConversation>> StartConversation() = 0;

  // Returns the nanoseconds spent feeding models. kInvalidArgument: a text that is no UTF-8 or too short, a first
  // position that is no multiple of the chunk or behind the last one; kAborted: `measurement` is another one;
  // kResourceExhausted; kCancelled where is_cancelled or on_tokens said so; kDataLoss: logits that are no numbers.
  virtual absl::StatusOr<int64_t> MeasureDrift(const DriftRequest& request, const DriftCallbacks& callbacks) = 0;
};

}  // namespace qgpu
