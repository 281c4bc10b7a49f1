#include "worker/model_runner.h"

#include "common/file.h"
#include "common/sha256.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/circuit.h"
#ifdef QGPU_WORKER_HAS_TORCH
#include "model/forward/torch/torch_executor.h"
#endif

namespace qgpu {
namespace {

class ModelRunner final : public LaunchRunner {
 public:
  ModelRunner(std::shared_ptr<const Circuit> circuit, std::unique_ptr<Executor> executor, HostedModel description)
      : circuit_(std::move(circuit)), executor_(std::move(executor)), description_(std::move(description)) {}

  HostedModel Describe() const override { return description_; }

  absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t> host_ids, int64_t token_budget,
                                    const TokenSink& sink) override {
    std::vector<Token> host_tokens;
    host_tokens.reserve(host_ids.size());
    for (int32_t id : host_ids) {
      QGPU_ASSIGN_OR_RETURN(host_tokens.emplace_back(), TokenFromId(id));
    }
    QGPU_ASSIGN_OR_RETURN(const ModelRun run,
                          RunLaunch(*executor_, *circuit_, host_tokens, token_budget,
                                    [&sink](int32_t id) { return sink(std::span<const int32_t>(&id, 1)); }));
    RunnerOutcome outcome;
    outcome.end = run.end;
    outcome.state = run.state;
    outcome.state.memory.resize(circuit_->geometry.memory_words);
    outcome.fault = std::string(run.fault.message());
    outcome.forward_passes = run.host_tokens + std::ssize(run.ids);
    outcome.prefill_ns = run.prefill_ns;
    outcome.decode_ns = run.decode_ns;
    outcome.read_ns = run.read_ns;
    return outcome;
  }

 private:
  std::shared_ptr<const Circuit> circuit_;
  std::unique_ptr<Executor> executor_;
  HostedModel description_;
};

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const std::shared_ptr<const Circuit>& circuit,
                                                       const ModelOptions& options) {
  const DataType type = options.data_type == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
  if (options.executor == "torch") {
#ifdef QGPU_WORKER_HAS_TORCH
    const ModelForm form = options.form == "dense" ? ModelForm::kDense : ModelForm::kSplit;
    return MakeTorchExecutor(*circuit, options.base, form, type, options.device);
#else
    return absl::FailedPreconditionError(
        "--executor torch: this worker was built without libtorch; configure with -DQGPU_WORKER_TORCH=ON");
#endif
  }
  if (options.form == "dense") {
    return absl::InvalidArgumentError("--form dense needs --executor torch: sparse runs the compiled layers alone");
  }
  return MakeSparseExecutor(circuit, type);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchRunner>> MakeModelRunner(const ModelOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(options.circuit));
  auto parsed = ParseCircuit(bytes);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        fmt::format("{}: {}", options.circuit, std::string(parsed.status().message())));
  }
  const auto circuit = std::make_shared<const Circuit>(*std::move(parsed));
  QGPU_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, MakeExecutor(circuit, options));
  HostedModel model;
  model.circuit_sha256 = Sha256Hex(bytes);
  model.circuit_hash = model.circuit_sha256.substr(0, 16);
  model.base = options.form == "dense" ? options.base : "none (compiled layers alone)";
  model.base_hidden = circuit->base_hidden;
  model.layers = static_cast<int>(circuit->layers.size());
  model.added_width = circuit->width;
  model.forms = {executor->Description()};
  if (options.executor == "torch" && options.device != "cpu") model.accelerator = options.device;
  return std::make_unique<ModelRunner>(circuit, std::move(executor), std::move(model));
}

}  // namespace qgpu
