// RunSuite with parties that fail as the test wants: what is retried, what is recorded, and how a run ends.
#include "coordinator/run/run_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "coordinator/judge/judge.h"
#include "coordinator/run/kernel_case.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "tests/canary/canary_runner.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

// out[tid] = tid + 5, as clang writes it.
constexpr const char* kPtx = R"(
.version 6.3
.target sm_75
.address_size 64
.visible .entry add_five(
	.param .u64 add_five_param_0
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [add_five_param_0];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd2, %rd3;
	add.s32 %r2, %r1, 5;
	st.global.u32 [%rd4], %r2;
	ret;
}
)";

KernelCase AddFive(const std::string& name, uint32_t words) {
  KernelCase one;
  one.suite = "test";
  one.kernel = "add_five";
  one.case_name = name;
  one.hash = name;
  one.spec.source = {"add_five.ptx", kPtx, SourceLanguage::kPtx};
  one.spec.block.x = 4;
  KernelArgument out;
  out.kind = KernelArgument::Kind::kBuffer;
  out.words.assign(words, 0);
  out.is_output = true;
  one.spec.arguments = {out};
  return one;
}

// Answers every request from the interpreter; fails as often as told before.
class FakeOracle : public OracleClient {
 public:
  absl::StatusOr<NodeRow> Describe() override {
    NodeRow node;
    node.role = "oracle";
    node.name = "fake";
    node.engines = {{"native engine", "native-cpu (fake)"}, {"native-cuda", "not run: no device"}};
    return node;
  }
  absl::StatusOr<OracleRun> RunNative(const LaunchSpec& spec, int64_t, std::stop_token) override {
    if (native_outcome != OracleOutcome::kDone) return As(native_outcome, "native-cpu");
    return Run(spec, "native-cpu");
  }
  absl::StatusOr<OracleRun> RunInterpreter(const LaunchSpec& spec, int64_t, std::stop_token) override {
    if (failures > 0) {
      --failures;
      return absl::UnavailableError("oracle fake: connection lost");
    }
    if (interpreter_outcome != OracleOutcome::kDone) return As(interpreter_outcome, "interpreter");
    return Run(spec, "interpreter");
  }
  std::atomic<int> failures = 0;
  OracleOutcome native_outcome = OracleOutcome::kDone, interpreter_outcome = OracleOutcome::kDone;

 private:
  static OracleRun As(OracleOutcome outcome, const std::string& engine) {
    OracleRun run;
    run.outcome = outcome;
    run.engine = engine;
    run.message = "as told";
    return run;
  }
  static absl::StatusOr<OracleRun> Run(const LaunchSpec& spec, const std::string& engine) {
    const auto compiled = CompileKernel(spec);
    if (!compiled.ok()) return As(OracleOutcome::kRefused, engine);
    const LoweredKernel& lowered = *compiled;
    const MachineRun run = Interpret(lowered.launch, spec.token_budget);
    OracleRun reply;
    reply.outcome = OracleOutcome::kDone;
    reply.engine = engine;
    reply.witness = engine + " (fake)";
    reply.memory = {run.state.memory.begin(),
                    run.state.memory.begin() + static_cast<std::ptrdiff_t>(lowered.arena_words)};
    reply.ids = TokenIds(run.tokens);
    reply.state = run.state;
    return reply;
  }
};

// A canary behind the client's interface, with a list of what the next calls fail with (OK: they do not).
class FakeWorker : public WorkerClient {
 public:
  explicit FakeWorker(const std::string& name, Cheat cheat = Cheat::kNone)
      : name_(name), runner_(MakeCanaryRunner(cheat)) {}

  absl::StatusOr<NodeRow> Describe() override {
    NodeRow node;
    node.role = "worker";
    node.name = name_;
    return node;
  }
  absl::StatusOr<WorkerLaunch> RunLaunch(std::span<const int32_t> host_ids, const LaunchLimits& limits,
                                         const std::function<bool(std::span<const int32_t>)>& keep_going,
                                         std::stop_token stop) override {
    ++calls;
    while (hangs && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (hangs) return absl::CancelledError("cancelled");
    if (!next.empty()) {
      const absl::Status status = next.front();
      next.pop_front();
      QGPU_RETURN_IF_ERROR(status);
    }
    WorkerLaunch launch;
    const auto outcome = runner_->Run(host_ids, limits.token_budget, [&](std::span<const int32_t> ids) {
      launch.ids.insert(launch.ids.end(), ids.begin(), ids.end());
      return keep_going(launch.ids);
    });
    if (outcome.ok()) launch.state = outcome->state;
    return launch;
  }
  absl::StatusOr<DriftEnd> MeasureDrift(const DriftJob&, DriftSink&, std::stop_token) override {
    return absl::UnimplementedError("no text");
  }
  std::string DeathNote() override { return death_note; }

  std::deque<absl::Status> next;
  std::string death_note;
  std::atomic<int> calls = 0;
  std::atomic<bool> hangs = false;

 private:
  std::string name_;
  std::unique_ptr<LaunchRunner> runner_;
};

class Listener : public RunListener {
 public:
  void OnItemDone(const CaseName& one, const std::string&, const AttemptRow& attempt,
                  const Progress& progress) override {
    finished.push_back(one.Id() + " " + CaseStatusName(attempt.status));
    last = progress;
    if (on_item) on_item();
  }
  std::vector<std::string> finished;
  Progress last;
  std::function<void()> on_item;
};

class RunSuiteFakes : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/qgpu_run_suite_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    store_ = *Store::Open(folder_ + "/qgpu.db");
    plan_.suites = {{"test", "hash"}};
    SetCases({AddFive("four", 4), AddFive("six", 6)});
    plan_.scheduling.backoff_ms = 1;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void SetCases(const std::vector<KernelCase>& cases) {
    plan_.cases.clear();
    for (const KernelCase& one : cases) plan_.cases.push_back(MakeKernelCase(one, {}));
  }
  absl::StatusOr<RunReport> Run(std::vector<WorkerClient*> workers) {
    return RunSuite(plan_, workers, oracle_, *store_, listener_, stop_.get_token());
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
  RunPlan plan_;
  FakeOracle oracle_;
  Listener listener_;
  std::stop_source stop_;
};

TEST_F(RunSuiteFakes, EveryCaseRunsOnEveryWorkerAndRepetition) {
  plan_.repetitions = 3;
  FakeWorker a("a"), b("b");
  const auto report = Run({&a, &b});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->items.size(), 12u);
  EXPECT_EQ(VerdictExitCode(*report), kExitGood);
  EXPECT_EQ(report->run.exit_code, kExitGood);
  EXPECT_EQ(a.calls, 6);
  EXPECT_EQ(b.calls, 6);
  EXPECT_EQ(listener_.last.done, 12);
  EXPECT_EQ(Headline(*report)[0].value, "1/1");
  EXPECT_EQ(report->nodes.size(), 4u);
}

TEST_F(RunSuiteFakes, LostConnectionsAreRetriedAndEveryAttemptIsKept) {
  FakeWorker worker("a");
  worker.next = {absl::UnavailableError("gone"), absl::InternalError("gone again")};
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(VerdictExitCode(*report), kExitGood);
  EXPECT_EQ(worker.calls, 4);
  std::vector<std::string> messages;
  for (const ItemRow& item : report->items) {
    for (const AttemptRow& attempt : item.attempts) {
      if (attempt.status == CaseStatus::kInfra) messages.push_back(attempt.message);
    }
  }
  EXPECT_THAT(messages, testing::UnorderedElementsAre("gone", "gone again"));
}

TEST_F(RunSuiteFakes, AWrongAnswerIsNeverRetried) {
  FakeWorker worker("a", Cheat::kWrongToken);
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(worker.calls, 2);
  EXPECT_EQ(VerdictExitCode(*report), kExitWrong);
  EXPECT_THAT(listener_.finished, testing::UnorderedElementsAre("add_five/four fail", "add_five/six fail"));
}

TEST_F(RunSuiteFakes, InfrastructureThatStaysDownMakesAPassImpossible) {
  FakeWorker worker("a");
  worker.next.assign(100, absl::UnavailableError("no route"));
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(worker.calls, 6);  // three attempts each
  EXPECT_EQ(report->items[0].status, CaseStatus::kInfra);
  EXPECT_EQ(VerdictExitCode(*report), kExitInfrastructure);
}

TEST_F(RunSuiteFakes, AProcessThatDiesEveryTimeIsACrash) {
  FakeWorker worker("a");
  worker.next.assign(100, absl::UnavailableError("connection reset"));
  worker.death_note = "died of signal 11";
  const auto report = Run({&worker});
  EXPECT_EQ(report->items[0].status, CaseStatus::kCrash);
  EXPECT_THAT(report->items[0].attempts[2].message, HasSubstr("died of signal 11"));
}

TEST_F(RunSuiteFakes, TimeoutsAndRefusalsOfTheWorkerAreFinal) {
  FakeWorker worker("a");
  worker.next = {absl::DeadlineExceededError("too slow"), absl::InvalidArgumentError("no")};
  const auto report = Run({&worker});
  EXPECT_EQ(worker.calls, 2);
  const Totals totals = Count(*report);
  EXPECT_EQ(totals.count(CaseStatus::kTimeout), 1);
  EXPECT_EQ(totals.count(CaseStatus::kError), 1);
}

TEST_F(RunSuiteFakes, TheOracleIsAskedAgainAndThenGivenUp) {
  FakeWorker worker("a");
  oracle_.failures = 2;
  EXPECT_EQ(VerdictExitCode(*Run({&worker})), kExitGood);
  oracle_.failures = 1000;
  const auto report = Run({&worker});
  EXPECT_EQ(report->items[0].status, CaseStatus::kInfra);
  EXPECT_THAT(report->items[0].attempts[0].message, HasSubstr("tried 3 times"));
  EXPECT_EQ(worker.calls, 2);  // of the first run only
}

TEST_F(RunSuiteFakes, WhatTheNativeEngineCannotSayIsNoPass) {
  FakeWorker worker("a");
  const std::pair<OracleOutcome, CaseStatus> outcomes[] = {
      {OracleOutcome::kTimeout, CaseStatus::kTimeout},    {OracleOutcome::kCrash, CaseStatus::kCrash},
      {OracleOutcome::kRefused, CaseStatus::kError},      {OracleOutcome::kUnsupported, CaseStatus::kUnsupported},
      {OracleOutcome::kNotRun, CaseStatus::kUnsupported}, {OracleOutcome::kTrap, CaseStatus::kFail}};
  for (const auto& [outcome, status] : outcomes) {
    oracle_.native_outcome = outcome;
    const auto report = Run({&worker});
    EXPECT_EQ(report->items[0].status, status);
  }
}

TEST_F(RunSuiteFakes, TheManifestSaysWhoRanNativelyAndWhoDidNot) {
  FakeWorker worker("a");
  const auto report = Run({&worker});
  EXPECT_THAT(report->run.manifest,
              testing::IsSupersetOf({std::pair<std::string, std::string>("native engine", "native-cpu (fake)"),
                                     {"native-cuda", "not run: no device"}}));
}

TEST_F(RunSuiteFakes, AKernelThatKillsTheLoweringCostsItsCaseOnly) {
  FakeWorker worker("a");
  oracle_.interpreter_outcome = OracleOutcome::kCrash;
  const auto report = Run({&worker});
  EXPECT_EQ(report->items[0].status, CaseStatus::kCrash);
  EXPECT_THAT(report->items[0].attempts[0].message, HasSubstr("the oracle's interpreter: as told"));
  EXPECT_EQ(worker.calls, 0);
}

TEST_F(RunSuiteFakes, RefusedKernelsAreSettledWithoutALaunch) {
  FakeWorker worker("a");
  KernelCase broken = AddFive("broken", 4);
  broken.spec.source.text = "this is no PTX";
  KernelCase expected = broken;
  expected.case_name = "expected";
  expected.expect = KernelCase::Expect::kRefusal;
  KernelCase other_text = expected;
  other_text.case_name = "other_text";
  other_text.expect_text = "a message that never comes";
  KernelCase accepted = AddFive("accepted", 4);
  accepted.expect = KernelCase::Expect::kRefusal;
  SetCases({broken, expected, other_text, accepted});
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(worker.calls, 0);
  EXPECT_EQ(report->items[0].status, CaseStatus::kError);
  EXPECT_EQ(report->items[1].status, CaseStatus::kPass);
  EXPECT_EQ(report->items[2].status, CaseStatus::kFail);
  EXPECT_EQ(report->items[3].status, CaseStatus::kFail);
}

TEST_F(RunSuiteFakes, ATrapIsAWrongAnswerUnlessExpected) {
  FakeWorker worker("a");
  KernelCase trap = AddFive("trap", 124);  // word 1 to 124, so that the buffer ends with the memory
  trap.spec.block.x = 4;
  trap.spec.arguments[0].words.resize(123);
  KernelCase expected = trap;
  std::vector<KernelCase> cases = {trap, expected};
  for (KernelCase& one : cases) {
    // Two lanes reach beyond the last word: the kernel starts at byte 4 * 124 after this change.
    const size_t at = one.spec.source.text.find("add.s32 %r2");
    one.spec.source.text.insert(at, "add.s64 %rd4, %rd4, 492;\n\t");
  }
  cases[1].case_name = "expected";
  cases[1].expect = KernelCase::Expect::kTrap;
  cases[1].expect_text = "out of range";
  SetCases(cases);
  oracle_.native_outcome = OracleOutcome::kTrap;
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->items[0].status, CaseStatus::kFail);
  EXPECT_THAT(report->items[0].attempts[0].message, HasSubstr("the kernel trapped: address out of range"));
  EXPECT_EQ(report->items[1].status, CaseStatus::kPass) << report->items[1].attempts[0].message;
  EXPECT_EQ(report->items[1].attempts[0].launch->end, "trap");
}

TEST_F(RunSuiteFakes, AStopKeepsWhatIsFinished) {
  FakeWorker worker("a");
  listener_.on_item = [&] { worker.hangs = true; };
  std::jthread stopper([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    stop_.request_stop();
  });
  const auto report = Run({&worker});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->run.state, "interrupted");
  EXPECT_EQ(Count(*report).items_finished, 1);
  EXPECT_EQ(VerdictExitCode(*report), kExitInfrastructure);
}

}  // namespace
}  // namespace qgpu
