#include "cli/engines.h"

#include <utility>

#include "cli/circuit_option.h"
#include "cli/model_engine.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/trap_report.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

MemoryImage ArenaOf(const PreparedLaunch& launch, std::vector<uint32_t> memory) {
  memory.resize(launch.arena.words.size());
  return memory;
}

LaunchResult RunInterpreter(const PreparedLaunch& launch, const LoweredKernel& lowered) {
  MachineRun run = Interpret(lowered.launch, launch.spec.token_budget);
  LaunchResult result = ResultOfMachine(launch, lowered, std::move(run));
  result.engine = "interpreter";
  return result;
}

absl::StatusOr<LaunchResult> RunNative(const PreparedLaunch& launch) {
  QGPU_ASSIGN_OR_RETURN(NativeCpuKernel kernel,
                        NativeCpuKernel::Compile(launch.ptx_name, launch.ptx, launch.spec.kernel));
  QGPU_ASSIGN_OR_RETURN(NativeRun run, kernel.Run(launch.spec, launch.parameter_names));
  LaunchResult result;
  result.engine = "native-cpu";
  result.memory = ArenaOf(launch, std::move(run.memory));
  if (run.end == NativeEnd::kTimeout) {
    result.end = LaunchEnd::kBudget;
  } else if (run.end != NativeEnd::kDone) {
    result.end = LaunchEnd::kTrap;
  }
  result.message = run.message;
  return result;
}

}  // namespace

LaunchResult ResultOfMachine(const PreparedLaunch& launch, const LoweredKernel& lowered, MachineRun run) {
  LaunchResult result;
  result.end = run.end;
  result.memory = ArenaOf(launch, std::move(run.state.memory));
  result.tokens = std::move(run.tokens);
  result.passes = run.passes;
  if (run.end == LaunchEnd::kTrap && run.trap.has_value()) {
    result.message = DescribeTrap(*run.trap, lowered.launch.program, launch.spec.source.name);
  } else if (run.end == LaunchEnd::kBudget) {
    result.message = fmt::format(
        "{} did not end within the budget of {} tokens; raise it with --budget, unless the "
        "kernel has an endless loop or a spin lock",
        launch.kernel, launch.spec.token_budget);
  }
  return result;
}

void AddEngineOptions(CLI::App& command, EngineOptions& options) {
  command.add_option("--engine", options.engine, "Who runs the kernel")
      ->capture_default_str()
      ->check(CLI::IsMember({"model", "interpreter", "native-cpu"}));
  AddCircuitOption(command, options.circuit);
  command.add_option("--executor", options.executor, "Model: non-zero weights only, or libtorch")
      ->capture_default_str()
      ->check(CLI::IsMember({"sparse", "torch"}));
  command.add_option("--form", options.form, "Model: compiled layers alone, or merged with the base")
      ->capture_default_str()
      ->check(CLI::IsMember({"split", "dense"}));
  command.add_option("--dtype", options.data_type, "Model: data type")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command.add_option("--base", options.base, "Dense form: folder of the base model (default: the embedded one)");
  command.add_flag("--check,!--no-check", options.check,
                   "Model: compare every position with the interpreter (default)");
}

absl::StatusOr<LaunchResult> RunOnEngine(const PreparedLaunch& launch, const EngineOptions& options) {
  if (options.runs_ptx()) return RunNative(launch);
  QGPU_ASSIGN_OR_RETURN(const LoweredKernel lowered, LowerLaunch(launch));
  return RunOnMachine(launch, lowered, options);
}

absl::StatusOr<LaunchResult> RunOnMachine(const PreparedLaunch& launch, const LoweredKernel& lowered,
                                          const EngineOptions& options) {
  if (options.engine == "interpreter") return RunInterpreter(launch, lowered);
  return RunModel(launch, lowered, options);
}

}  // namespace qgpu
