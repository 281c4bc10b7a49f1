#include "coordinator/run/kernel_case.h"

#include "common/stopwatch.h"
#include "coordinator/judge/judge.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

// A launch is stopped once it has written so many tokens more than the reference: it is wrong beyond doubt.
constexpr int64_t kTokensAfterTheEnd = 64;

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

// What the judge is given, and how it was made.
struct KernelEvidence {
  JudgeInput judge;                 // without the model's evidence
  std::vector<int32_t> oracle_ids;  // judge.interpreter points here
  std::vector<int32_t> host_ids;    // what is fed
  std::vector<Sample> samples;      // lowering and oracle times
};

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

class PreparedKernel final : public PreparedCase {
 public:
  PreparedKernel(std::unique_ptr<const KernelEvidence> evidence, int64_t launch_limit_ms)
      : evidence_(std::move(evidence)), launch_limit_ms_(launch_limit_ms) {}

  AttemptOutcome Attempt(const WorkerTurn& turn) const override {
    const int64_t longest = std::ssize(evidence_->judge.reference.tokens) + kTokensAfterTheEnd;
    const Stopwatch watch;
    const auto launch = turn.worker.RunLaunch(
        evidence_->host_ids, {evidence_->judge.token_budget, launch_limit_ms_},
        [longest](std::span<const int32_t> ids) { return std::ssize(ids) < longest; }, turn.stop);
    if (!launch.ok()) return FailedCall(launch.status(), turn.worker);
    JudgeInput input = evidence_->judge;
    input.model.tokens = launch->ids;
    input.model.state = launch->state;
    input.model.fault = launch->fault;
    const Verdict verdict = Judge(input);
    AttemptOutcome outcome;
    outcome.status = verdict.status;
    outcome.message = verdict.message;
    outcome.launch = verdict.launch;
    outcome.launch->host_tokens = std::ssize(evidence_->host_ids);
    outcome.samples = LaunchSamples(*launch, watch.ns());
    outcome.samples.insert(outcome.samples.end(), evidence_->samples.begin(), evidence_->samples.end());
    return outcome;
  }

 private:
  std::unique_ptr<const KernelEvidence> evidence_;
  int64_t launch_limit_ms_;
};

class KernelSuiteCase final : public SuiteCase {
 public:
  KernelSuiteCase(CaseName name, KernelCase kernel_case, const KernelOptions& options)
      : SuiteCase(std::move(name)), case_(std::move(kernel_case)), options_(options) {}

  int64_t attempt_limit_ms() const override { return options_.launch_limit_ms; }
  absl::StatusOr<std::shared_ptr<const PreparedCase>> Prepare(const CaseTools& tools) const override;

 private:
  std::unique_ptr<KernelEvidence> MakeEvidence(LoweredKernel lowered, const OracleRun& interpreter) const;
  absl::StatusOr<std::optional<Settled>> AskNative(const CaseTools& tools, KernelEvidence& evidence) const;

  KernelCase case_;
  KernelOptions options_;
};

// The launch and everything the judge needs, except for the native run and the model's.
std::unique_ptr<KernelEvidence> KernelSuiteCase::MakeEvidence(LoweredKernel lowered,
                                                              const OracleRun& interpreter) const {
  auto evidence = std::make_unique<KernelEvidence>();
  JudgeInput& judge = evidence->judge;
  judge.launch = std::move(lowered.launch);
  judge.token_budget = case_.spec.token_budget;
  judge.reference = Interpret(judge.launch, judge.token_budget);
  judge.arena_words = lowered.arena_words;
  judge.expects_trap = case_.expect == KernelCase::Expect::kTrap;
  judge.expect_text = judge.expects_trap ? case_.expect_text : "";
  judge.source_name = case_.spec.source.name;
  judge.replay = options_.replay;
  evidence->oracle_ids = interpreter.ids;
  judge.interpreter = InterpreterEvidence{evidence->oracle_ids, interpreter.state.value_or(MachineState())};
  evidence->host_ids = TokenIds(HostTokens(judge.launch));
  return evidence;
}

absl::StatusOr<std::optional<Settled>> KernelSuiteCase::AskNative(const CaseTools& tools,
                                                                  KernelEvidence& evidence) const {
  QGPU_ASSIGN_OR_RETURN(const OracleRun run, tools.oracle.RunNative(case_.spec, options_.native_limit_ms, tools.stop));
  if (const auto settled = SettledByOracle(run); settled.has_value()) return settled;
  evidence.samples.push_back({"native_compile", "ms", Milliseconds(run.compile_ns)});
  evidence.samples.push_back({"native_run", "ms", Milliseconds(run.run_ns)});
  if (run.outcome == OracleOutcome::kDone) {
    evidence.judge.native = NativeEvidence{run.memory, run.engine, run.witness};
  } else {
    evidence.judge.native_failure = run.message;
  }
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const PreparedCase>> KernelSuiteCase::Prepare(const CaseTools& tools) const {
  // The oracle first: it lowers in a process of its own, so a kernel that our lowering cannot stand costs its case
  // only.
  QGPU_ASSIGN_OR_RETURN(const OracleRun interpreter,
                        tools.oracle.RunInterpreter(case_.spec, options_.native_limit_ms, tools.stop));
  const std::optional<Settled> settled_by_oracle = SettledByOracle(interpreter);
  if (interpreter.outcome == OracleOutcome::kCrash || interpreter.outcome == OracleOutcome::kTimeout) {
    return SettledCase(*settled_by_oracle);
  }
  const Stopwatch watch;
  auto lowered = CompileKernel(case_.spec, tools.ptx_cache);
  if (!lowered.ok() && IsAboutTheKernel(lowered.status())) return SettledCase(JudgeRefusal(case_, lowered.status()));
  QGPU_RETURN_IF_ERROR(lowered.status());
  const Sample lower_time = {"lower", "ms", Milliseconds(watch.ns())};
  if (settled_by_oracle.has_value()) return SettledCase(*settled_by_oracle);
  if (case_.expect == KernelCase::Expect::kRefusal) {
    return SettledCase({CaseStatus::kFail, "the kernel was accepted, the case expects that it is refused"});
  }
  std::unique_ptr<KernelEvidence> evidence = MakeEvidence(*std::move(lowered), interpreter);
  evidence->samples.push_back(lower_time);
  if (!evidence->judge.expects_trap && evidence->judge.reference.end != LaunchEnd::kBudget) {
    QGPU_ASSIGN_OR_RETURN(const std::optional<Settled> settled, AskNative(tools, *evidence));
    if (settled.has_value()) return SettledCase(*settled);
  }
  return std::make_shared<PreparedKernel>(std::move(evidence), options_.launch_limit_ms);
}

}  // namespace

std::shared_ptr<const SuiteCase> MakeKernelCase(KernelCase kernel_case, const KernelOptions& options) {
  CaseName name{SuiteKind::kKernels, kernel_case.suite, kernel_case.kernel, kernel_case.case_name, kernel_case.hash};
  return std::make_shared<KernelSuiteCase>(std::move(name), std::move(kernel_case), options);
}

}  // namespace qgpu
