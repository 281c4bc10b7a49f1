#include "tests/differential/compare_engines.h"

#include "lowering/compile.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/trap_report.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

std::string FirstDifference(const MachineRun& run, size_t arena_words, const NativeRun& native) {
  for (size_t word = 0; word < arena_words; ++word) {
    if (run.state.memory[word] == native.memory[word]) continue;
    return fmt::format("word {}: interpreter {}, native-cpu {}", word, static_cast<int32_t>(run.state.memory[word]),
                       static_cast<int32_t>(native.memory[word]));
  }
  return "";
}

}  // namespace

Comparison CompareEngines(const LaunchSpec& spec, const std::function<void(Program&)>& change) {
  static PtxCache cache;
  Comparison out;
  const absl::StatusOr<PtxSource> source = cache.Get(spec);
  if (!source.ok()) {
    out.difference = std::string(source.status().message());
    return out;
  }
  out.compiled = true;
  LaunchSpec of_ptx = spec;
  of_ptx.kernel = source->entry;
  absl::StatusOr<LoweredKernel> lowered = CompileKernel(spec, cache);
  if (!lowered.ok()) {
    out.refused = true;
    out.difference = lowered.status().ToString();
    return out;
  }
  if (change != nullptr) change(lowered->launch.program);
  const MachineRun run = Interpret(lowered->launch, spec.token_budget);
  out.tokens = static_cast<int64_t>(run.tokens.size());
  out.passes = run.passes;
  NativeCpuLimits limits;
  limits.backward_branches = spec.token_budget;  // each costs the machine a token at least
  const absl::StatusOr<NativeRun> native = RunNativeCpu(source->ptx, of_ptx, source->parameter_names, limits);
  if (!native.ok()) {
    out.difference = native.status().ToString();
    return out;
  }
  out.machine_trapped = run.end == LaunchEnd::kTrap;
  const bool native_trapped = native->end == NativeEnd::kOutOfRange || native->end == NativeEnd::kMisaligned;
  if (out.machine_trapped && native_trapped) return out;  // what was written before it is not defined
  out.only_native_trapped = !out.machine_trapped && native_trapped;
  if (run.end == LaunchEnd::kBudget && native->end == NativeEnd::kTimeout) return out;  // neither ends
  if (run.end != LaunchEnd::kDone || native->end != NativeEnd::kDone) {
    out.difference =
        fmt::format("interpreter: {}, native-cpu: {} {}",
                    run.end == LaunchEnd::kDone   ? "done"
                    : run.end == LaunchEnd::kTrap ? DescribeTrap(*run.trap, lowered->launch.program, ".ptx")
                                                  : "token budget spent",
                    NativeEndName(native->end), native->message);
  } else {
    out.difference = FirstDifference(run, lowered->arena_words, *native);
  }
  if (!out.difference.empty()) {
    out.difference = fmt::format("{}\n{}{}", out.difference, Disassemble(lowered->launch.program), source->ptx);
  }
  return out;
}

}  // namespace qgpu
