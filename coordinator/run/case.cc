#include "coordinator/run/case.h"

#include <chrono>

#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

// A launch is stopped once it has written so many tokens more than the reference: it is wrong beyond doubt.
constexpr int64_t kTokensAfterTheEnd = 64;

double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

class Stopwatch {
 public:
  int64_t ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::shared_ptr<const PreparedCase> SettledCase(CaseStatus status, const std::string& message) {
  auto prepared = std::make_shared<PreparedCase>();
  prepared->settled = Settled{status, message};
  return prepared;
}

// A kernel that was refused: as expected, or in a way that says what to do about it.
Settled JudgeRefusal(const KernelCase& kernel_case, const absl::Status& refusal) {
  const std::string message(refusal.message());
  if (kernel_case.expect != KernelCase::Expect::kRefusal) {
    return {absl::IsUnimplemented(refusal) ? CaseStatus::kUnsupported : CaseStatus::kError, message};
  }
  if (message.find(kernel_case.expect_text) == std::string::npos) {
    return {CaseStatus::kFail,
            fmt::format("refused, but the case expects \"{}\" in the message: {}", kernel_case.expect_text, message)};
  }
  return {CaseStatus::kPass, ""};
}

bool IsAboutTheKernel(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) || absl::IsNotFound(status) ||
         absl::IsOutOfRange(status);
}

// What an oracle run other than a complete one settles, if anything.
std::optional<Settled> SettledByOracle(const OracleRun& run) {
  const std::string message = fmt::format("the oracle's {}: {}", run.engine, run.message);
  switch (run.outcome) {
    case OracleOutcome::kRefused:
      return Settled{CaseStatus::kError, message};
    case OracleOutcome::kUnsupported:
    case OracleOutcome::kNotRun:
      return Settled{CaseStatus::kUnsupported, message};
    case OracleOutcome::kTimeout:
      return Settled{CaseStatus::kTimeout, message};
    case OracleOutcome::kCrash:
      return Settled{CaseStatus::kCrash, message};
    default:
      return std::nullopt;
  }
}

void AddNative(const OracleRun& run, PreparedCase& prepared) {
  prepared.samples.push_back({"native_compile", "ms", Milliseconds(run.compile_ns)});
  prepared.samples.push_back({"native_run", "ms", Milliseconds(run.run_ns)});
  if (run.outcome == OracleOutcome::kDone) {
    prepared.judge.native = NativeEvidence{run.memory, run.engine, run.witness};
  } else {
    prepared.judge.native_failure = run.message;
  }
}

absl::Status AskNative(const LaunchSpec& spec, const CaseOptions& options, OracleClient& oracle, std::stop_token stop,
                       PreparedCase& prepared) {
  QGPU_ASSIGN_OR_RETURN(const OracleRun run, oracle.RunNative(spec, options.native_limit_ms, stop));
  prepared.settled = SettledByOracle(run);
  if (!prepared.settled.has_value()) AddNative(run, prepared);
  return absl::OkStatus();
}

// The launch and everything the judge needs, except for the native run and the model's.
std::shared_ptr<PreparedCase> MakePrepared(const KernelCase& kernel_case, const CaseOptions& options,
                                           LoweredKernel lowered, const OracleRun& interpreter) {
  auto prepared = std::make_shared<PreparedCase>();
  JudgeInput& judge = prepared->judge;
  judge.launch = std::move(lowered.launch);
  judge.token_budget = kernel_case.spec.token_budget;
  judge.reference = Interpret(judge.launch, judge.token_budget);
  judge.arena_words = lowered.arena_words;
  judge.expects_trap = kernel_case.expect == KernelCase::Expect::kTrap;
  judge.expect_text = judge.expects_trap ? kernel_case.expect_text : "";
  judge.source_name = kernel_case.spec.source.name;
  judge.replay = options.replay;
  prepared->oracle_ids = interpreter.ids;
  judge.interpreter = InterpreterEvidence{prepared->oracle_ids, interpreter.state.value_or(MachineState())};
  prepared->host_ids = TokenIds(HostTokens(judge.launch));
  return prepared;
}

std::vector<Sample> LaunchSamples(const WorkerLaunch& launch, int64_t wall_ns) {
  std::vector<Sample> samples = {{"prefill", "ms", Milliseconds(launch.prefill_ns)},
                                 {"decode", "ms", Milliseconds(launch.decode_ns)},
                                 {"read", "ms", Milliseconds(launch.read_ns)},
                                 {"wait", "ms", Milliseconds(launch.wait_ns)},
                                 {"wall", "ms", Milliseconds(wall_ns)},
                                 {"forward_passes", "count", static_cast<double>(launch.forward_passes)}};
  if (launch.decode_ns > 0) {
    samples.push_back({"decode_rate", "tokens_per_s",
                       static_cast<double>(launch.ids.size()) / (static_cast<double>(launch.decode_ns) * 1e-9)});
  }
  return samples;
}

AttemptOutcome FailedLaunch(const absl::Status& status, WorkerClient& worker) {
  AttemptOutcome outcome;
  outcome.message = std::string(status.message());
  if (absl::IsDeadlineExceeded(status)) {
    outcome.status = CaseStatus::kTimeout;
  } else if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) {
    outcome.status = CaseStatus::kError;
  } else {
    outcome.is_infrastructure = true;
    const std::string death = worker.DeathNote();
    if (!death.empty()) {
      outcome.status = CaseStatus::kCrash;
      outcome.message = fmt::format("{}: {}", death, outcome.message);
    }
  }
  return outcome;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCase>> PrepareCase(const KernelCase& kernel_case,
                                                                const CaseOptions& options, PtxCache& ptx_cache,
                                                                OracleClient& oracle, std::stop_token stop) {
  // The oracle first: it lowers in a process of its own, so a kernel that our lowering cannot stand costs its case
  // only.
  QGPU_ASSIGN_OR_RETURN(const OracleRun interpreter,
                        oracle.RunInterpreter(kernel_case.spec, options.native_limit_ms, stop));
  const std::optional<Settled> settled_by_oracle = SettledByOracle(interpreter);
  if (interpreter.outcome == OracleOutcome::kCrash || interpreter.outcome == OracleOutcome::kTimeout) {
    return SettledCase(settled_by_oracle->status, settled_by_oracle->message);
  }
  const Stopwatch watch;
  auto lowered = CompileKernel(kernel_case.spec, ptx_cache);
  if (!lowered.ok() && IsAboutTheKernel(lowered.status())) {
    const Settled settled = JudgeRefusal(kernel_case, lowered.status());
    return SettledCase(settled.status, settled.message);
  }
  QGPU_RETURN_IF_ERROR(lowered.status());
  const Sample lower_time = {"lower", "ms", Milliseconds(watch.ns())};
  if (settled_by_oracle.has_value()) return SettledCase(settled_by_oracle->status, settled_by_oracle->message);
  if (kernel_case.expect == KernelCase::Expect::kRefusal) {
    return SettledCase(CaseStatus::kFail, "the kernel was accepted, the case expects that it is refused");
  }
  auto prepared = MakePrepared(kernel_case, options, *std::move(lowered), interpreter);
  prepared->samples.push_back(lower_time);
  const bool with_native = !prepared->judge.expects_trap && prepared->judge.reference.end != LaunchEnd::kBudget;
  if (with_native) QGPU_RETURN_IF_ERROR(AskNative(kernel_case.spec, options, oracle, stop, *prepared));
  return prepared;
}

AttemptOutcome RunAttempt(const PreparedCase& prepared, const CaseOptions& options, WorkerClient& worker,
                          std::stop_token stop) {
  AttemptOutcome outcome;
  if (prepared.settled.has_value()) {
    outcome.status = prepared.settled->status;
    outcome.message = prepared.settled->message;
    return outcome;
  }
  const int64_t longest = std::ssize(prepared.judge.reference.tokens) + kTokensAfterTheEnd;
  const Stopwatch watch;
  const auto launch = worker.RunLaunch(
      prepared.host_ids, {prepared.judge.token_budget, options.launch_limit_ms},
      [longest](std::span<const int32_t> ids) { return std::ssize(ids) < longest; }, stop);
  if (!launch.ok()) return FailedLaunch(launch.status(), worker);
  JudgeInput input = prepared.judge;
  input.model.tokens = launch->ids;
  input.model.state = launch->state;
  input.model.fault = launch->fault;
  const Verdict verdict = Judge(input);
  outcome.status = verdict.status;
  outcome.message = verdict.message;
  outcome.launch = verdict.launch;
  outcome.launch->host_tokens = std::ssize(prepared.host_ids);
  outcome.samples = LaunchSamples(*launch, watch.ns());
  outcome.samples.insert(outcome.samples.end(), prepared.samples.begin(), prepared.samples.end());
  return outcome;
}

}  // namespace qgpu
