#include "cli/model_engine.h"

#include <utility>

#include "cli/circuit_option.h"
#include "common/version.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#ifdef QGPU_HAS_TORCH
#include "model/base/random_base.h"
#include "model/forward/torch/torch_executor.h"
#endif

namespace qgpu {
namespace {

#ifdef QGPU_HAS_TORCH
absl::StatusOr<std::unique_ptr<Executor>> MakeTorch(const Circuit& circuit, const EngineOptions& options,
                                                    DataType type) {
  if (options.form == "split") return MakeTorchExecutor(circuit, "", ModelForm::kSplit, type);
  std::string base = options.base;
  if (base.empty()) {
    QGPU_ASSIGN_OR_RETURN(base, EmbeddedBase(BaseCacheDirectory()));
  }
  return MakeTorchExecutor(circuit, base, ModelForm::kDense, type);
}
#else
absl::StatusOr<std::unique_ptr<Executor>> MakeTorch(const Circuit&, const EngineOptions&, DataType) {
  return absl::InvalidArgumentError("--executor torch: this build has no libtorch; configure with -DQGPU_TORCH=ON");
}
#endif

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(std::shared_ptr<const Circuit> circuit,
                                                       const EngineOptions& options) {
  const DataType type = options.data_type == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
  if (options.executor == "torch") return MakeTorch(*circuit, options, type);
  if (options.form == "dense") {
    return absl::InvalidArgumentError("--form dense needs --executor torch: sparse runs the compiled layers alone");
  }
  return MakeSparseExecutor(std::move(circuit), type);
}

CheckSummary Summarize(const CheckReport& report) {
  CheckSummary summary;
  summary.positions = report.positions_checked;
  summary.mismatches = report.mismatches;
  summary.exact = report.exact();
  if (!report.exact()) summary.first = FormatCheck(report);
  return summary;
}

}  // namespace

absl::StatusOr<LaunchResult> RunModel(const PreparedLaunch& launch, const LoweredKernel& lowered,
                                      const EngineOptions& options) {
  QGPU_ASSIGN_OR_RETURN(Circuit loaded, LoadCircuit(options.circuit));
  const auto circuit = std::make_shared<const Circuit>(std::move(loaded));
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, MakeExecutor(circuit, options));
  const MachineLaunch& machine = lowered.launch;
  QGPU_ASSIGN_OR_RETURN(ModelRun run, RunLaunch(*executor, *circuit, HostTokens(machine), launch.spec.token_budget));

  MachineRun as_machine;
  as_machine.end = run.end;
  as_machine.tokens = run.tokens;
  as_machine.passes = run.passes;
  as_machine.state = run.state;
  if (run.end == LaunchEnd::kTrap && run.fault.ok()) {
    QGPU_ASSIGN_OR_RETURN(as_machine.trap, ExplainTrap(machine, run));
  }
  LaunchResult result = ResultOfMachine(launch, lowered, std::move(as_machine));
  result.engine = fmt::format("model ({})", executor->Description());
  result.circuit = CircuitFileHash(options.circuit);
  result.fault = run.fault;
  if (options.check) result.check = Summarize(CheckRun(machine, run));
  return result;
}

}  // namespace qgpu
