#include "worker/model_runner.h"

#include <utility>

#include "common/file.h"
#include "common/sha256.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/circuit.h"
#include "worker/launch_outcome.h"
#ifdef QGPU_WORKER_HAS_TORCH
#include "model/base/random_base.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/base_build.h"
#include "worker/model_text_host.h"
#endif

namespace qgpu {
namespace {

class ModelRunner final : public LaunchRunner {
 public:
  ModelRunner(std::shared_ptr<const Circuit> circuit, std::shared_ptr<Executor> executor, HostedModel description)
      : circuit_(std::move(circuit)), executor_(std::move(executor)), description_(std::move(description)) {}

  HostedModel Describe() const override { return description_; }

  absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t> host_ids, int64_t token_budget,
                                    const TokenSink& sink) override {
    QGPU_ASSIGN_OR_RETURN(const std::vector<Token> host_tokens, TokensOf(host_ids));
    QGPU_ASSIGN_OR_RETURN(const ModelRun run,
                          RunLaunch(*executor_, *circuit_, host_tokens, token_budget,
                                    [&sink](int32_t id) { return sink(std::span<const int32_t>(&id, 1)); }));
    return OutcomeOf(run, *circuit_);
  }

 private:
  std::shared_ptr<const Circuit> circuit_;
  std::shared_ptr<Executor> executor_;
  HostedModel description_;
};

DataType TypeOf(const ModelOptions& options) {
  return options.data_type == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
}

// The circuit with the SHA-256 of its file.
struct HostedCircuit {
  std::shared_ptr<const Circuit> circuit;
  std::string sha256;
};

absl::StatusOr<HostedCircuit> ReadCircuit(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  auto parsed = ParseCircuit(bytes);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(), fmt::format("{}: {}", path, std::string(parsed.status().message())));
  }
  return HostedCircuit{std::make_shared<const Circuit>(*std::move(parsed)), Sha256Hex(bytes)};
}

HostedModel Describe(const HostedCircuit& hosted, const ModelOptions& options, const Executor& executor) {
  HostedModel model;
  model.circuit_sha256 = hosted.sha256;
  model.circuit_hash = hosted.sha256.substr(0, 16);
  model.base_hidden = hosted.circuit->base_hidden;
  model.layers = static_cast<int>(hosted.circuit->layers.size());
  model.added_width = hosted.circuit->width;
  model.forms = {executor.Description()};
  if (options.executor == "torch" && options.device != "cpu") model.accelerator = options.device;
  return model;
}

#ifdef QGPU_WORKER_HAS_TORCH
absl::StatusOr<HostedCircuit> CircuitFor(const ModelOptions& options, const HostedBase& base) {
  const int64_t hidden = base.checkpoint->shape().hidden;
  if (!options.circuit_is_given) {
    QGPU_ASSIGN_OR_RETURN(const BaseBuild build, BuildForBase(base.directory));
    return HostedCircuit{build.circuit, Sha256Hex(SerializeCircuit(*build.circuit))};
  }
  QGPU_ASSIGN_OR_RETURN(HostedCircuit read, ReadCircuit(options.circuit));
  if (read.circuit->base_hidden == hidden) return read;
  return absl::FailedPreconditionError(
      fmt::format("{} is for a base of hidden size {}, {} has {}; leave --circuit out to have one built for it",
                  options.circuit, read.circuit->base_hidden, base.directory, hidden));
}

absl::StatusOr<std::shared_ptr<const HostedBase>> OpenEmbeddedBase() {
  QGPU_ASSIGN_OR_RETURN(const std::string directory, EmbeddedBase(BaseCacheDirectory()));
  return HostedBase::Open(directory);
}

absl::StatusOr<ModelHost> MakeHost(const ModelOptions& options) {
  TextHostOptions text;
  text.type = TypeOf(options);
  text.device = options.executor == "torch" ? options.device : "cpu";
  text.open_base = OpenEmbeddedBase;
  HostedCircuit hosted;
  if (options.base.empty()) {
    QGPU_ASSIGN_OR_RETURN(hosted, ReadCircuit(options.circuit));
  } else {
    QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const HostedBase> base, HostedBase::Open(options.base));
    QGPU_ASSIGN_OR_RETURN(hosted, CircuitFor(options, *base));
    text.open_base = [base] { return base; };
  }
  text.circuit = hosted.circuit;
  std::shared_ptr<Executor> executor;
  if (options.form == "dense") {
    QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const HostedBase> base, text.open_base());
    QGPU_ASSIGN_OR_RETURN(text.dense,
                          MakeDenseConversation(hosted.circuit, base->directory, text.type, options.device));
    executor = std::shared_ptr<Executor>(text.dense, &text.dense->machine());
  } else {
    if (options.executor == "torch") {
      QGPU_ASSIGN_OR_RETURN(executor,
                            MakeTorchExecutor(*hosted.circuit, "", ModelForm::kSplit, text.type, options.device));
    } else {
      executor = MakeSparseExecutor(hosted.circuit, text.type);
    }
    text.split_executor = executor;
  }
  HostedModel model = Describe(hosted, options, *executor);
  ModelHost host;
  const int64_t embedded = EmbeddedBaseShape().hidden;
  if (options.base.empty() && hosted.circuit->base_hidden != embedded) {
    host.no_text = fmt::format(
        "this worker's circuit is for a base of hidden size {}, the embedded base has {}; "
        "start it with --base",
        hosted.circuit->base_hidden, embedded);
  } else {
    model.base = options.base.empty() ? "embedded base (random)" : options.base;
    host.text = MakeModelTextHost(std::move(text));
  }
  host.launches = std::make_unique<ModelRunner>(hosted.circuit, std::move(executor), std::move(model));
  return host;
}
#else
absl::StatusOr<ModelHost> MakeHost(const ModelOptions& options) {
  constexpr char kRemedy[] = "configure with -DQGPU_TORCH=ON";
  if (options.executor == "torch" || !options.base.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: this worker was built without libtorch and runs launches alone; {}",
                    options.base.empty() ? "--executor torch" : "--base", kRemedy));
  }
  QGPU_ASSIGN_OR_RETURN(const HostedCircuit hosted, ReadCircuit(options.circuit));
  std::shared_ptr<Executor> executor = MakeSparseExecutor(hosted.circuit, TypeOf(options));
  HostedModel model = Describe(hosted, options, *executor);
  ModelHost host;
  host.launches = std::make_unique<ModelRunner>(hosted.circuit, std::move(executor), std::move(model));
  host.no_text = fmt::format("this worker was built without libtorch and runs launches alone; {}", kRemedy);
  return host;
}
#endif

}  // namespace

absl::StatusOr<ModelHost> MakeModelHost(const ModelOptions& options) {
  if (options.form == "dense" && options.executor != "torch") {
    return absl::InvalidArgumentError("--form dense needs --executor torch: sparse runs the compiled layers alone");
  }
  return MakeHost(options);
}

}  // namespace qgpu
