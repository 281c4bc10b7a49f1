#include "cli/engines.h"

#include <utility>

#include "cli/circuit_option.h"
#include "cli/model_engine.h"
#include "cli/trace_narrator.h"
#include "machine/interpreter/interpreter.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

MemoryImage ArenaOf(const PreparedLaunch& launch, std::vector<uint32_t> memory) {
  memory.resize(launch.lowered.arena_words);
  return memory;
}

LaunchResult RunInterpreter(const PreparedLaunch& launch) {
  MachineRun run = Interpret(launch.lowered.launch, launch.spec.token_budget);
  LaunchResult result = ResultOfMachine(launch, std::move(run));
  result.engine = "interpreter";
  return result;
}

absl::StatusOr<LaunchResult> RunNative(const PreparedLaunch& launch) {
  LaunchSpec spec = launch.spec;
  QGPU_ASSIGN_OR_RETURN(NativeRun run, RunNativeCpu(launch.lowered.ptx, spec, launch.lowered.parameter_names));
  LaunchResult result;
  result.engine = "native-cpu";
  result.memory = ArenaOf(launch, std::move(run.memory));
  if (run.end == NativeEnd::kTimeout) {
    result.end = LaunchEnd::kBudget;
  } else if (run.end != NativeEnd::kDone) {
    result.end = LaunchEnd::kTrap;
  }
  if (run.end != NativeEnd::kDone) result.message = fmt::format("{}: {}", NativeEndName(run.end), run.message);
  return result;
}

}  // namespace

LaunchResult ResultOfMachine(const PreparedLaunch& launch, MachineRun run) {
  LaunchResult result;
  result.end = run.end;
  result.memory = ArenaOf(launch, std::move(run.state.memory));
  result.tokens = std::move(run.tokens);
  result.passes = run.passes;
  const KernelSource& source = launch.spec.source;
  if (run.end == LaunchEnd::kTrap && run.trap.has_value()) {
    result.message =
        DescribeTrap(*run.trap, launch.lowered.launch.program, source.name, source.language == SourceLanguage::kCuda);
  } else if (run.end == LaunchEnd::kBudget) {
    result.message = fmt::format(
        "{} did not end within the budget of {} tokens; raise it with --budget, unless the "
        "kernel has an endless loop or a spin lock",
        launch.lowered.kernel, launch.spec.token_budget);
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
  if (options.engine == "interpreter") return RunInterpreter(launch);
  if (options.engine == "native-cpu") return RunNative(launch);
  return RunModel(launch, options);
}

}  // namespace qgpu
