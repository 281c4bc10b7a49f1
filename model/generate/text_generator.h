// Text that a model writes: ids are fed, then the model's own choices are, until one of several ends. Which model that
// is stands behind TextModel; nothing here knows of the machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/forward/text_model.h"
#include "model/text/sampling.h"
#include "model/text/tokenizer.h"

namespace qgpu {

struct GenerateOptions {
  int64_t max_tokens = 0;  // 0: the ids are only fed
  SamplingOptions sampling = {};
  std::vector<int32_t> stop_tokens = {};  // the turn ends with one of these
  // The turn ends where its text has one of these, which is not part of what is shown. One that is the text of a
  // special token stops at that token.
  std::vector<std::string> stop = {};
  // Feeds the last token that was written too, so that the context is all of the turn and others may go on after it.
  // The forward pass can be saved where nobody does.
  bool feed_last = true;
};

enum class GenerateEnd {
  kFed,           // max_tokens was 0
  kStopToken,     // one of stop_tokens
  kStopText,      // one of stop
  kMaxTokens,     //
  kMachineToken,  // greedy, and an id behind the text vocabulary won: it is none of text, so it is not written
  kContextFull,   // the last token has no position any more, or none is left to write one
  kCancelled,     // the caller's wish; what was written by then is in the context but for its last token
};

struct GenerateResult {
  GenerateEnd end = GenerateEnd::kFed;
  int64_t fed_tokens = 0;      // of the ids given
  int64_t written_tokens = 0;  // with the stop token
  std::chrono::nanoseconds prefill{0}, decode{0};
};

struct GenerateCallbacks {
  // Tokens written since the last call, and text that may be shown now: whole characters, without special tokens. Text
  // comes later than its tokens where a character is not complete or might begin a stop text; a call may have only
  // one of the two. An error ends the turn and is returned.
  std::function<absl::Status(std::string_view text, std::span<const int32_t> ids)> on_text;
  std::function<bool()> is_cancelled;  // asked before every forward pass; a long input is fed in several
};

// One context: turns go on after each other. Not thread-safe.
class TextGenerator {
 public:
  // Ids below `text_vocabulary` are text's; the model's rows may be longer.
  TextGenerator(TextModel& model, std::shared_ptr<const Tokenizer> tokenizer, int64_t text_vocabulary);

  // The model was reset: nothing has occurred yet that the repetition penalty would be for.
  void Reset();

  // Ids that the model was fed by somebody else count for the repetition penalty.
  void Note(std::span<const int32_t> ids);

  // kInvalidArgument before anything is fed: options that CheckGenerateOptions refuses, an id outside the text
  // vocabulary, more ids than the context has room for, no ids but tokens to write. kFailedPrecondition: the model's
  // logits are no numbers. Errors of the model and of on_text.
  absl::StatusOr<GenerateResult> Run(std::span<const int32_t> ids, const GenerateOptions& options,
                                     const GenerateCallbacks& callbacks = {});

 private:
  class Turn;

  TextModel& model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t text_vocabulary_;
  std::vector<int32_t> seen_;  // in order of first occurrence
  std::vector<bool> is_seen_;
};

// kInvalidArgument: max_tokens below 0, sampling options, a stop text that is empty, longer than 64 KiB or no UTF-8,
// more than 64 of them.
absl::Status CheckGenerateOptions(const GenerateOptions& options);

}  // namespace qgpu
