#include "model/generate/text_generator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/generate/stop_text.h"
#include "model/text/detokenizer.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

constexpr size_t kPassPositions = 512;  // fed at once: the caller's wish to end is asked for between passes
constexpr size_t kMostStops = 64, kLongestStop = size_t{64} << 10;

std::chrono::nanoseconds Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

}  // namespace

absl::Status CheckGenerateOptions(const GenerateOptions& options) {
  if (options.max_tokens < 0) {
    return absl::InvalidArgumentError(fmt::format("max_tokens {} is below 0", options.max_tokens));
  }
  QGPU_RETURN_IF_ERROR(CheckSamplingOptions(options.sampling));
  if (options.stop.size() > kMostStops) {
    return absl::InvalidArgumentError(
        fmt::format("{} stop texts; at most {} are taken", options.stop.size(), kMostStops));
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return absl::InvalidArgumentError("a stop text is empty");
    if (stop.size() > kLongestStop) {
      return absl::InvalidArgumentError(fmt::format("a stop text has more than {} bytes", kLongestStop));
    }
    QGPU_RETURN_IF_ERROR(CheckUtf8(stop, "a stop text"));
  }
  return absl::OkStatus();
}

// One call of Run.
class TextGenerator::Turn {
 public:
  Turn(TextGenerator& generator, const GenerateOptions& options, const GenerateCallbacks& callbacks)
      : generator_(generator),
        options_(options),
        callbacks_(callbacks),
        sampler_(options.sampling),
        detokenizer_(generator.tokenizer_, /*skip_special=*/true),
        stop_text_(options.stop) {
    for (const std::string& stop : options.stop) {
      const std::optional<int32_t> token = generator.tokenizer_->Find(stop);
      if (token.has_value() && generator.tokenizer_->IsSpecial(*token)) stop_text_tokens_.push_back(*token);
    }
  }

  absl::StatusOr<GenerateResult> Run(std::span<const int32_t> ids) {
    auto start = std::chrono::steady_clock::now();
    QGPU_ASSIGN_OR_RETURN(const bool fed, Feed(ids));
    result_.prefill = Since(start);
    start = std::chrono::steady_clock::now();
    if (!fed) {
      result_.end = GenerateEnd::kCancelled;
    } else if (options_.max_tokens > 0) {
      QGPU_RETURN_IF_ERROR(Write());
      QGPU_RETURN_IF_ERROR(Show(stop_text_.Push(detokenizer_.Finish()) + stop_text_.Finish(), {}));
    }
    result_.decode = Since(start);
    return result_;
  }

 private:
  bool IsCancelled() const { return callbacks_.is_cancelled && callbacks_.is_cancelled(); }

  absl::Status Show(const std::string& text, std::span<const int32_t> ids) const {
    if (!callbacks_.on_text || (text.empty() && ids.empty())) return absl::OkStatus();
    return callbacks_.on_text(text, ids);
  }

  // False: the caller wants to end before all is fed.
  absl::StatusOr<bool> Feed(std::span<const int32_t> ids) {
    const std::vector<int64_t> wide(ids.begin(), ids.end());
    for (size_t at = 0; at < wide.size();) {
      if (IsCancelled()) return false;
      const size_t count = std::min(kPassPositions, wide.size() - at);
      QGPU_ASSIGN_OR_RETURN(logits_, generator_.model_.NextLogits(std::span(wide).subspan(at, count)));
      generator_.Note(ids.subspan(at, count));
      at += count;
      result_.fed_tokens = static_cast<int64_t>(at);
    }
    return true;
  }

  // The next token; none where one of the machine's wins.
  absl::StatusOr<std::optional<int32_t>> Choose() {
    const auto vocabulary = static_cast<size_t>(generator_.text_vocabulary_);
    const std::span<const float> row(logits_);
    const absl::StatusOr<int32_t> id = sampler_.Next(row.first(vocabulary), generator_.seen_);
    if (!id.ok()) {
      return absl::FailedPreconditionError(fmt::format(
          "behind {} written tokens: {}; the checkpoint has weights that are no numbers, or the data type's "
          "range does not suffice (try float32)",
          result_.written_tokens, std::string(id.status().message())));
    }
    if (options_.sampling.temperature > 0 || row.size() == vocabulary) return *id;
    const float best_of_machine = *std::max_element(row.begin() + generator_.text_vocabulary_, row.end());
    // Compared with what the text's best has without a penalty: that is for text's ids only.
    const float best_of_text = *std::max_element(row.begin(), row.begin() + generator_.text_vocabulary_);
    if (best_of_machine > best_of_text) return std::nullopt;
    return *id;
  }

  absl::Status Write() {
    for (;;) {
      QGPU_ASSIGN_OR_RETURN(const std::optional<int32_t> id, Choose());
      if (!id.has_value()) return End(GenerateEnd::kMachineToken);
      ++result_.written_tokens;
      const bool is_over = IsOver(*id);
      const std::string text = is_over ? "" : stop_text_.Push(detokenizer_.Push(*id));
      QGPU_RETURN_IF_ERROR(Show(text, {&*id, 1}));
      if (stop_text_.found()) result_.end = GenerateEnd::kStopText;
      const bool is_last = is_over || stop_text_.found() || result_.written_tokens == options_.max_tokens;
      if (is_last && !is_over && !stop_text_.found()) result_.end = GenerateEnd::kMaxTokens;
      if (is_last && !options_.feed_last) return absl::OkStatus();

      const int64_t wide = *id;
      if (!generator_.model_.CheckIds({&wide, 1}).ok()) {  // it is one of the vocabulary: there is no position for it
        return is_last ? absl::OkStatus() : End(GenerateEnd::kContextFull);
      }
      if (!is_last && IsCancelled()) return End(GenerateEnd::kCancelled);
      QGPU_ASSIGN_OR_RETURN(logits_, generator_.model_.NextLogits({&wide, 1}));
      generator_.Note({&*id, 1});
      if (is_last) return absl::OkStatus();
    }
  }

  // Whether the token itself ends the turn; sets the end.
  bool IsOver(int32_t id) {
    const auto has = [id](const std::vector<int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (has(options_.stop_tokens)) {
      result_.end = GenerateEnd::kStopToken;
      return true;
    }
    if (!has(stop_text_tokens_)) return false;
    result_.end = GenerateEnd::kStopText;
    return true;
  }

  absl::Status End(GenerateEnd end) {
    result_.end = end;
    return absl::OkStatus();
  }

  TextGenerator& generator_;
  const GenerateOptions& options_;
  const GenerateCallbacks& callbacks_;
  Sampler sampler_;
  StreamingDetokenizer detokenizer_;
  StopText stop_text_;
  std::vector<int32_t> stop_text_tokens_;
  std::vector<float> logits_;  // behind what was fed last
  GenerateResult result_;
};

TextGenerator::TextGenerator(TextModel& model, std::shared_ptr<const Tokenizer> tokenizer, int64_t text_vocabulary)
    : model_(model),
      tokenizer_(std::move(tokenizer)),
      text_vocabulary_(std::min(text_vocabulary, model.vocabulary())),
      is_seen_(static_cast<size_t>(text_vocabulary_)) {}

void TextGenerator::Reset() {
  seen_.clear();
  is_seen_.assign(is_seen_.size(), false);
}

void TextGenerator::Note(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const auto index = static_cast<size_t>(id);
    if (id < 0 || index >= is_seen_.size() || is_seen_[index]) continue;
    is_seen_[index] = true;
    seen_.push_back(id);
  }
}

absl::StatusOr<GenerateResult> TextGenerator::Run(std::span<const int32_t> ids, const GenerateOptions& options,
                                                  const GenerateCallbacks& callbacks) {
  QGPU_RETURN_IF_ERROR(CheckGenerateOptions(options));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < text_vocabulary_) continue;
    return absl::InvalidArgumentError(
        fmt::format("id {} (number {}) is none of text: those are 0 to {}", ids[i], i + 1, text_vocabulary_ - 1));
  }
  if (ids.empty() && options.max_tokens > 0) {
    return absl::InvalidArgumentError("there is nothing to go on from: the input has no tokens");
  }
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  QGPU_RETURN_IF_ERROR(model_.CheckIds(wide));
  return Turn(*this, options, callbacks).Run(ids);
}

}  // namespace qgpu
