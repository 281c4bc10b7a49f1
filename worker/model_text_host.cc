#include "worker/model_text_host.h"

#include <utility>

#include "common/sha256.h"
#include "common/version.h"
#include "evals/drift/measure.h"
#include "model/base/file_hash.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/text/chat_encoding.h"
#include "nlohmann/json.hpp"
#include "worker/launch_outcome.h"
#include "worker/model_pool.h"

namespace qgpu {
namespace {

using Key = ModelPool::Key;

class ModelConversation final : public TextConversation {
 public:
  ModelConversation(std::shared_ptr<const HostedBase> base, std::shared_ptr<Conversation> conversation,
                    std::shared_ptr<const Circuit> circuit)
      : base_(std::move(base)), conversation_(std::move(conversation)), circuit_(std::move(circuit)) {
    conversation_->Reset();
    if (!base_->tokenizer) return;
    generator_ =
        std::make_unique<TextGenerator>(conversation_->text(), base_->tokenizer, conversation_->text_vocabulary());
  }

  absl::StatusOr<GenerateResult> Text(const TextTurn& turn, const GenerateCallbacks& callbacks) override {
    if (!generator_) {
      return absl::FailedPreconditionError(
          fmt::format("{} has no tokenizer.json; text turns need one", base_->directory));
    }
    QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, Ids(turn));
    GenerateOptions options;
    options.max_tokens = turn.max_tokens;
    options.sampling = turn.sampling.value_or(base_->generation.sampling);
    options.stop = turn.stop;
    if (!turn.ignore_stop_tokens) options.stop_tokens = base_->generation.stop_tokens;
    return generator_->Run(ids, options, callbacks);
  }

  absl::StatusOr<RunnerOutcome> Launch(std::span<const int32_t> host_ids, int64_t token_budget,
                                       const TokenSink& sink) override {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Token> host_tokens, TokensOf(host_ids));
    QGPU_ASSIGN_OR_RETURN(const ModelRun run, conversation_->Launch(host_tokens, token_budget, [&sink](int32_t id) {
      return sink(std::span<const int32_t>(&id, 1));
    }));
    return OutcomeOf(run, *circuit_);
  }

 private:
  absl::StatusOr<std::vector<int32_t>> Ids(const TextTurn& turn) const {
    if (const auto* text = std::get_if<std::string>(&turn.input)) return base_->tokenizer->Encode(*text);
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&turn.input)) return *ids;
    const auto& chat = std::get<ChatInput>(turn.input);
    if (!base_->chat_template.ok()) {
      return absl::FailedPreconditionError(fmt::format("the base's chat template cannot be used: {}",
                                                       std::string(base_->chat_template.status().message())));
    }
    QGPU_ASSIGN_OR_RETURN(EncodedChat encoded, EncodeChat(**base_->chat_template, *base_->tokenizer, chat.messages,
                                                          {.enable_thinking = chat.enable_thinking}));
    return std::move(encoded.ids);
  }

  std::shared_ptr<const HostedBase> base_;
  std::shared_ptr<Conversation> conversation_;
  std::shared_ptr<const Circuit> circuit_;
  std::unique_ptr<TextGenerator> generator_;
};

DataType TypeOf(const DriftProbe& probe) { return probe.bfloat16 ? DataType::kBFloat16 : DataType::kFloat32; }
bool IsSplit(const DriftProbe& probe) { return probe.form == DriftProbe::Form::kSplit; }

// What the base is compared in: the merged model's own type where text is the base's own, float32 otherwise.
DataType ReferenceType(const DriftProbe& probe) { return IsSplit(probe) ? TypeOf(probe) : DataType::kFloat32; }

std::vector<Key> ModelsOf(const DriftProbe& probe) {
  std::vector<Key> keys = {{ModelRole::kBase, ReferenceType(probe)},
                           {IsSplit(probe) ? ModelRole::kTextPath : ModelRole::kDense, TypeOf(probe)}};
  if (!probe.bfloat16) return keys;
  keys.push_back({ModelRole::kBase, IsSplit(probe) ? DataType::kFloat32 : DataType::kBFloat16});  // the noise floor's
  return keys;
}

class ModelTextHost final : public TextHost {
 public:
  explicit ModelTextHost(TextHostOptions options)
      : options_(std::move(options)), pool_(options_.circuit, options_.device) {
    if (options_.dense) pool_.Pin(options_.type, options_.dense);
  }

  std::vector<std::string> DriftProbes() const override {
    std::vector<std::string> names;
    for (const DriftProbe& probe : AllDriftProbes()) names.push_back(probe.Name());
    return names;
  }

  absl::StatusOr<std::unique_ptr<TextConversation>> StartConversation() override {
    QGPU_RETURN_IF_ERROR(OpenBase());
    std::shared_ptr<Conversation> conversation = options_.dense;
    if (!conversation) {
      const Key key = {ModelRole::kTextPath, options_.type};
      QGPU_RETURN_IF_ERROR(pool_.Keep(base_->directory, {key}, 0));
      conversation = MakeSplitConversation(pool_.Text(key), options_.split_executor, options_.circuit);
    }
    return std::make_unique<ModelConversation>(base_, std::move(conversation), options_.circuit);
  }

  absl::StatusOr<int64_t> MeasureDrift(const DriftRequest& request, const DriftCallbacks& callbacks) override {
    QGPU_RETURN_IF_ERROR(OpenBase());
    const DriftProbe& probe = request.probe;
    QGPU_ASSIGN_OR_RETURN(const DriftTokens tokens,
                          base_->encoder.Encode({request.text_name, "", "", "", request.text}, request.positions));
    DriftBeginning beginning;
    beginning.positions = static_cast<int64_t>(tokens.ids.size()) - 1;
    if (request.first_position % request.chunk != 0 || request.first_position > beginning.positions) {
      return absl::InvalidArgumentError(
          fmt::format("first_position {} is no multiple of the chunk, {}, up to the text's {} positions",
                      request.first_position, request.chunk, beginning.positions));
    }
    QGPU_RETURN_IF_ERROR(CheckPositions(tokens));
    QGPU_ASSIGN_OR_RETURN(beginning.measurement, Measurement(request, tokens));
    if (!request.measurement.empty() && request.measurement != beginning.measurement) {
      return absl::AbortedError(fmt::format("the rows that are known are of measurement {}, this one is {}",
                                            request.measurement, beginning.measurement));
    }
    const std::vector<Key> keys = ModelsOf(probe);
    QGPU_RETURN_IF_ERROR(pool_.Keep(base_->directory, keys, LogitsBytes(request, keys.size())));
    QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<Conversation> merged, MergedConversation(probe));
    const std::string on_device = options_.device == "cpu" ? "" : " on " + options_.device;
    beginning.token_source = base_->encoder.Description();
    beginning.reference = fmt::format("base, {}{}", DataTypeName(ReferenceType(probe)), on_device);
    beginning.merged =
        fmt::format("{} {}{}", IsSplit(probe) ? "split" : "dense", DataTypeName(TypeOf(probe)), on_device);
    beginning.has_noise_floor = probe.bfloat16;
    QGPU_RETURN_IF_ERROR(callbacks.on_start(beginning));
    return Measure(request, tokens, *merged, callbacks);
  }

 private:
  absl::Status OpenBase() {
    if (base_) return absl::OkStatus();
    QGPU_ASSIGN_OR_RETURN(base_, options_.open_base());
    return absl::OkStatus();
  }

  absl::Status CheckPositions(const DriftTokens& tokens) const {
    const int64_t room = base_->checkpoint->shape().max_positions;
    if (static_cast<int64_t>(tokens.ids.size()) - 1 <= room) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("text {} has {} positions, and the base {} (max_position_embeddings); measure fewer", tokens.name,
                    tokens.ids.size() - 1, room));
  }

  // The logits of a chunk of every model, in the model and as they are compared.
  int64_t LogitsBytes(const DriftRequest& request, size_t models) const {
    const int64_t width = base_->checkpoint->shape().vocabulary + options_.circuit->embedding.rows;
    return 2 * static_cast<int64_t>(models) * request.chunk * width * static_cast<int64_t>(sizeof(float));
  }

  absl::StatusOr<std::shared_ptr<Conversation>> MergedConversation(const DriftProbe& probe) {
    const DataType type = TypeOf(probe);
    if (!IsSplit(probe)) return pool_.Dense(type);
    std::shared_ptr<Executor> executor = options_.split_executor;
    if (!executor || type != options_.type) executor = MakeSparseExecutor(options_.circuit, type);
    return MakeSplitConversation(pool_.Text({ModelRole::kTextPath, type}), std::move(executor), options_.circuit);
  }

  // All that the numbers depend on, but for the machine they are computed on, as a hash.
  absl::StatusOr<std::string> Measurement(const DriftRequest& request, const DriftTokens& tokens) {
    if (base_hashes_.empty()) {
      for (const std::string& file : base_->checkpoint->WeightFiles()) {
        QGPU_ASSIGN_OR_RETURN(base_hashes_.emplace_back(), FileSha256(file));
      }
      QGPU_ASSIGN_OR_RETURN(base_hashes_.emplace_back(), FileSha256(base_->directory + "/config.json"));
    }
    if (circuit_hash_.empty()) circuit_hash_ = CircuitHash(*options_.circuit);
    const auto hash_of = [](const auto& ids) { return Sha256Hex(ids.data(), ids.size() * sizeof(ids[0])); };
    nlohmann::ordered_json run = {{"program", fmt::format("{} {} {}", ProjectVersion(), BuildCommit(), BuildType())},
                                  {"base", base_hashes_},
                                  {"circuit", circuit_hash_},
                                  {"probe", request.probe.Name()},
                                  {"device", options_.device},
                                  {"chunk", request.chunk},
                                  {"ids", hash_of(tokens.ids)}};
    if (request.probe.after_launch) {
      run["launch"] = {{"host_tokens", hash_of(request.host_ids)}, {"token_budget", request.token_budget}};
    }
    return Sha256Hex(run.dump());
  }

  absl::StatusOr<int64_t> Measure(const DriftRequest& request, const DriftTokens& tokens, Conversation& merged,
                                  const DriftCallbacks& callbacks) {
    const DriftProbe& probe = request.probe;
    DriftModels models;
    models.reference = pool_.Text({ModelRole::kBase, ReferenceType(probe)}).get();
    models.merged = &merged.text();
    if (probe.bfloat16) {
      models.fine_base = pool_.Text({ModelRole::kBase, DataType::kFloat32}).get();
      models.coarse_base = pool_.Text({ModelRole::kBase, DataType::kBFloat16}).get();
    }
    DriftMeasurement measurement({}, {tokens}, request.chunk);
    measurement.SkipTo(request.first_position);
    measurement.StopWhen(callbacks.is_cancelled);
    if (probe.after_launch) {
      measurement.BeforeEveryText([&](TextModel&) { return LaunchBefore(request, merged, callbacks); });
    }
    for (int64_t at = request.first_position; !measurement.complete(); at = measurement.positions_done()) {
      QGPU_RETURN_IF_ERROR(measurement.RunChunk(models));
      DriftPiece piece;
      piece.first_position = at;
      piece.drift = RowsFrom(measurement.drift(), at - request.first_position);
      piece.noise_floor = RowsFrom(measurement.noise_floor(), at - request.first_position);
      for (int64_t next = at + 1; next <= measurement.positions_done(); ++next) {
        piece.predicted.push_back(base_->encoder.Show({tokens.ids[static_cast<size_t>(next)]}));
      }
      QGPU_RETURN_IF_ERROR(callbacks.on_rows(piece));
    }
    return measurement.feed_ns();
  }

  static std::vector<RowDrift> RowsFrom(const DriftStatistics& statistics, int64_t first_row) {
    if (statistics.texts().empty()) return {};
    const std::vector<RowDrift>& rows = statistics.texts()[0].rows;
    return {rows.begin() + first_row, rows.end()};
  }

  // The launch of the same conversation: run freely, by the model itself.
  absl::Status LaunchBefore(const DriftRequest& request, Conversation& merged, const DriftCallbacks& callbacks) const {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Token> host_tokens, TokensOf(request.host_ids));
    QGPU_ASSIGN_OR_RETURN(const ModelRun run,
                          merged.Launch(host_tokens, request.token_budget, [&callbacks](int32_t id) {
                            return callbacks.on_tokens(std::span<const int32_t>(&id, 1));
                          }));
    const bool is_over = run.ids.size() == run.tokens.size();
    return callbacks.on_launch_end(is_over ? std::optional(run.end) : std::nullopt);
  }

  TextHostOptions options_;
  std::shared_ptr<const HostedBase> base_;
  ModelPool pool_;
  std::vector<std::string> base_hashes_;
  std::string circuit_hash_;
};

}  // namespace

std::unique_ptr<TextHost> MakeModelTextHost(TextHostOptions options) {
  return std::make_unique<ModelTextHost>(std::move(options));
}

}  // namespace qgpu
