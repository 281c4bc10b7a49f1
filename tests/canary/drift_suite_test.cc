// The drift suite with workers that cheat, die and change: what is believed, what is kept, and what is taken up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "coordinator/run/drift_case.h"
#include "coordinator/run/drift_check.h"
#include "coordinator/run/grpc_connection.h"
#include "coordinator/run/grpc_drift.h"
#include "coordinator/run/run_suite.h"
#include "evals/drift/judge.h"
#include "tests/canary/canary_text.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// No launches here; the oracle is never asked.
class NoOracle : public OracleClient {
 public:
  absl::StatusOr<NodeRow> Describe() override {
    NodeRow node;
    node.role = "oracle";
    node.name = "none";
    return node;
  }
  absl::StatusOr<OracleRun> RunNative(const LaunchSpec&, int64_t, std::stop_token) override {
    return absl::InternalError("asked");
  }
  absl::StatusOr<OracleRun> RunInterpreter(const LaunchSpec&, int64_t, std::stop_token) override {
    return absl::InternalError("asked");
  }
};

// A canary's text side behind the client's interface. `dies_after` chunks of a call the connection is lost, once.
class TextWorker : public WorkerClient {
 public:
  explicit TextWorker(DriftCheat cheat, const std::string& id = "") : text_(MakeCanaryText(cheat, id)) {
    probes = text_->DriftProbes();
  }

  absl::StatusOr<NodeRow> Describe() override {
    NodeRow node;
    node.role = "worker";
    node.name = "fake";
    node.drift_probes = probes;
    return node;
  }
  absl::StatusOr<WorkerLaunch> RunLaunch(std::span<const int32_t>, const LaunchLimits&,
                                         const std::function<bool(std::span<const int32_t>)>&,
                                         std::stop_token) override {
    return absl::InternalError("asked for a launch");
  }
  absl::StatusOr<DriftEnd> MeasureDrift(const DriftJob& job, DriftSink& sink, std::stop_token stop) override {
    calls.push_back(job.first_position);
    QGPU_RETURN_IF_ERROR(says);
    DriftRequest request{*DriftProbeFromName(job.probe),
                         job.text_name,
                         job.text,
                         job.positions,
                         job.chunk,
                         job.first_position,
                         job.measurement,
                         job.host_ids,
                         job.token_budget};
    absl::Status refused;
    int chunks = 0;
    DriftCallbacks callbacks;
    callbacks.on_start = [&](const DriftBeginning& start) {
      DriftStart sent{start.positions, start.measurement, start.token_source,
                      start.reference, start.merged,      start.has_noise_floor};
      if (change_start) change_start(sent);
      return sink.OnStart(sent);
    };
    callbacks.on_tokens = [&](std::span<const int32_t> ids) {
      refused = sink.OnLaunchTokens(ids);
      return refused.ok();
    };
    callbacks.on_launch_end = [&](std::optional<LaunchEnd>) { return sink.OnLaunchEnd(); };
    callbacks.on_rows = [&](const DriftPiece& piece) -> absl::Status {
      DriftChunk chunk{piece.first_position, piece.drift, piece.noise_floor, piece.predicted};
      if (change_rows) change_rows(chunk);
      QGPU_RETURN_IF_ERROR(sink.OnRows(chunk));
      if (on_chunk) on_chunk();
      if (++chunks != dies_after) return absl::OkStatus();
      dies_after = 0;
      return absl::UnavailableError("worker fake: connection lost");
    };
    callbacks.is_cancelled = [&] { return stop.stop_requested(); };
    const auto feed_ns = text_->MeasureDrift(request, callbacks);
    QGPU_RETURN_IF_ERROR(refused);
    QGPU_RETURN_IF_ERROR(feed_ns.status());
    return DriftEnd{*feed_ns};
  }

  std::vector<std::string> probes;
  std::vector<int64_t> calls;  // first position of each
  absl::Status says;           // instead of measuring
  int dies_after = 0;
  std::function<void(DriftStart&)> change_start;
  std::function<void(DriftChunk&)> change_rows;
  std::function<void()> on_chunk;

 private:
  std::unique_ptr<TextHost> text_;
};

class DriftSuiteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/qgpu_drift_suite_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    store_ = *Store::Open(folder_ + "/qgpu.db");
    plan_.scheduling.backoff_ms = 1;
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Select(const std::vector<std::string>& probes, std::vector<std::string> names = {"prose"}) {
    std::vector<DriftText> texts;
    for (const std::string& name : names)
      texts.push_back({name, "", "", "", "Some text called " + name + ", long enough for it"});
    const auto suite = MakeDriftSuite(*DriftProbesNamed(probes), texts, {.positions = 20, .chunk = 8});
    ASSERT_TRUE(suite.ok()) << suite.status();
    plan_.suites = {{suite->name, suite->hash, SuiteKind::kDrift}};
    plan_.cases = suite->cases;
  }
  absl::StatusOr<RunReport> Run(TextWorker& worker) {
    return RunSuite(plan_, {&worker}, oracle_, *store_, listener_, stop_.get_token());
  }
  // One item, one run.
  ItemRow RunOne(TextWorker& worker, const std::string& probe) {
    Select({probe});
    const auto report = Run(worker);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->items.at(0) : ItemRow();
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
  RunPlan plan_;
  NoOracle oracle_;
  RunListener listener_;
  std::stop_source stop_;
};

double ValueOf(const AttemptRow& attempt, const std::string& metric, const std::string& unit) {
  for (const Sample& sample : attempt.samples) {
    if (sample.metric == metric) return sample.unit == unit ? sample.value : -2;
  }
  return -1;
}

TEST_F(DriftSuiteTest, AWorkerThatDoesNotCheatPassesEveryProbeAndEveryRowIsKept) {
  TextWorker worker(DriftCheat::kNone);
  Select({"all"}, {"prose", "code"});
  const auto report = Run(worker);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->items.size(), 16u);
  EXPECT_EQ(VerdictExitCode(*report), kExitGood);
  for (const ItemRow& item : report->items) {
    SCOPED_TRACE(item.CaseId());
    EXPECT_EQ(item.kind, SuiteKind::kDrift);
    EXPECT_EQ(item.status, CaseStatus::kPass) << item.LastAttempt()->message;
    ASSERT_TRUE(item.drift.has_value());
    EXPECT_TRUE(item.drift->complete());
    EXPECT_EQ(item.drift->positions, 20);
    EXPECT_EQ(item.drift->drift.name, item.case_name);
    EXPECT_EQ(item.drift->noise.rows.size(), 20u);
    EXPECT_EQ(item.drift->predicted.size(), 20u);
    EXPECT_EQ(item.drift->token_source, "bytes");
    // The statistics are those of the stored rows.
    const AttemptRow& attempt = *item.LastAttempt();
    const DriftSummary summary = DriftStatistics::Summarize(item.drift->drift);
    EXPECT_EQ(ValueOf(attempt, "kl_mean", "nats"), summary.mean);
    EXPECT_EQ(ValueOf(attempt, "kl_p999", "nats"), summary.p999);
    EXPECT_EQ(ValueOf(attempt, "same_top", "share"), summary.same_top);
    const DriftSummary noise = DriftStatistics::Summarize(item.drift->noise);
    EXPECT_EQ(ValueOf(attempt, "noise_kl_mean", "nats"), noise.mean);
    EXPECT_EQ(ValueOf(attempt, "base", "perplexity"), summary.base_perplexity);
    EXPECT_EQ(ValueOf(attempt, "merged", "perplexity"), summary.merged_perplexity);
    EXPECT_EQ(ValueOf(attempt, "noise_base", "perplexity"), noise.base_perplexity);
    EXPECT_EQ(ValueOf(attempt, "machine_max", "share"), summary.machine_share_max);
    EXPECT_NE(noise.base_perplexity, summary.base_perplexity) << "the canary's are two bases";
    EXPECT_EQ(ValueOf(attempt, "feed", "ms"), 1.0);
    const bool after_launch = item.kernel.ends_with("-after-launch");
    ASSERT_EQ(attempt.launch.has_value(), after_launch);
    if (!after_launch) continue;
    EXPECT_EQ(attempt.launch->end, "done");
    EXPECT_GT(attempt.launch->positions_checked, 10);
    EXPECT_EQ(attempt.launch->mismatches, 0);
  }
}

TEST_F(DriftSuiteTest, ABrokenProtocolIsAnErrorThatNamesIt) {
  const std::pair<DriftCheat, const char*> cheats[] = {
      {DriftCheat::kMissing, "ended after 19 of 20 positions"},
      {DriftCheat::kOutOfOrder, "rows from position 8 on, 0 is the next one"},
      {DriftCheat::kTooMany, "5 rows from position 16 on, the measurement has 20"},
      {DriftCheat::kNotANumber, "position 1: kl is nan"},
      {DriftCheat::kNegative, "position 1: kl is -1"},
      {DriftCheat::kLikely, "position 1: machine_share is 1.5"},
      {DriftCheat::kNoRows, "ended after 0 of 20 positions"},
      {DriftCheat::kNoNoise, "no noise floor"}};
  for (const auto& [cheat, message] : cheats) {
    SCOPED_TRACE(message);
    TextWorker worker(cheat);
    const ItemRow item = RunOne(worker, "dense-bfloat16");
    EXPECT_EQ(item.status, CaseStatus::kError);
    ASSERT_EQ(item.attempts.size(), 1u) << "what breaks the protocol is not tried again";
    EXPECT_THAT(item.attempts[0].message, HasSubstr(message));
    EXPECT_THAT(item.attempts[0].samples, testing::IsEmpty()) << "a measurement that is not whole has no statistics";
  }
}

TEST_F(DriftSuiteTest, MoreWaysToBreakTheProtocol) {
  const std::pair<std::function<void(DriftChunk&)>, const char*> changes[] = {
      {[](DriftChunk& chunk) { chunk.noise.pop_back(); }, "7 rows of the noise floor, it has 8"},
      {[](DriftChunk& chunk) { chunk.rows.clear(); }, "a message without rows"},
      {[](DriftChunk& chunk) { chunk.predicted.pop_back(); }, "7 predicted tokens of 8 rows"},
      {[](DriftChunk& chunk) { chunk.rows[3].top_overlap = 6; }, "position 3: top_overlap is 6"},
      {[](DriftChunk& chunk) { chunk.rows[3].merged_surprise = INFINITY; }, "position 3: merged_surprise is inf"},
      {[](DriftChunk& chunk) { chunk.rows[3].kl = 1.1e6; }, "position 3: kl is 1100000"},
      {[](DriftChunk& chunk) { chunk.rows[3].base_surprise = 1e300; }, "position 3: base_surprise is 1e+300"},
      {[](DriftChunk& chunk) { chunk.rows[3].merged_surprise = 1e7; }, "position 3: merged_surprise is 10000000"},
      {[](DriftChunk& chunk) { chunk.noise[3].merged_surprise = 1e300; }, "noise floor: merged_surprise is 1e+300"},
      {[](DriftChunk& chunk) { chunk.noise[4].kl = -INFINITY; }, "position 4: noise floor: kl is -inf"},
      {[](DriftChunk& chunk) { chunk.noise[2].base_surprise = NAN; }, "position 2: noise floor: base_surprise is nan"},
      {[](DriftChunk& chunk) { chunk.first_position = -8; }, "rows from position -8 on"}};
  for (const auto& [change, message] : changes) {
    TextWorker worker(DriftCheat::kNone);
    worker.change_rows = change;
    const ItemRow item = RunOne(worker, "dense-float32");
    EXPECT_EQ(item.status, CaseStatus::kError);
    EXPECT_THAT(item.attempts[0].message, HasSubstr(message));
  }
}

TEST_F(DriftSuiteTest, WhatAWorkerSaysIsMadePrintableWhereItIsReceived) {
  TextWorker worker(DriftCheat::kNone);
  worker.says = absl::InvalidArgumentError("\x1b]0;owned\x07 red\x1b[31m\n\u202e\xff");
  const ItemRow item = RunOne(worker, "split-float32");
  EXPECT_EQ(item.status, CaseStatus::kError);
  EXPECT_EQ(item.attempts.at(0).message, "\\x1b]0;owned\\x07 red\\x1b[31m\n\\u{202e}\\xff");
  const absl::Status status = PeerStatus({grpc::StatusCode::NOT_FOUND, "\x1b[31m"}, "worker a");
  EXPECT_EQ(status, absl::NotFoundError("worker a: \\x1b[31m"));
  EXPECT_TRUE(PeerStatus(grpc::Status::OK, "worker a").ok());
}

// Numbers of the wire that do not fit are said as they are.
TEST_F(DriftSuiteTest, NumbersOfTheWireKeepTheirValueInMessages) {
  class Never : public DriftSink {
   public:
    absl::Status OnStart(const DriftStart&) override { return absl::InternalError("called"); }
    absl::Status OnLaunchTokens(std::span<const int32_t>) override { return absl::InternalError("called"); }
    absl::Status OnLaunchEnd() override { return absl::InternalError("called"); }
    absl::Status OnRows(const DriftChunk&) override { return absl::InternalError("called"); }
  } sink;
  std::optional<DriftEnd> end;
  const auto message = [&](const v1::MeasureDriftReply& reply) {
    return std::string(TakeDriftReply(reply, sink, end).message());
  };
  constexpr uint64_t kLarge = (uint64_t{1} << 63) + 5;
  v1::MeasureDriftReply start, rows, overlap, last;
  start.mutable_start()->set_positions(kLarge);
  EXPECT_THAT(message(start), HasSubstr("positions is 9223372036854775813"));
  rows.mutable_rows()->set_first_position(kLarge);
  EXPECT_THAT(message(rows), HasSubstr("first_position is 9223372036854775813"));
  v1::DriftRows& row = *overlap.mutable_rows();
  row.add_kl(0);
  row.add_machine_share(0);
  row.add_base_surprise(0);
  row.add_merged_surprise(0);
  row.add_same_top(true);
  row.add_top_overlap(4'000'000'000);
  EXPECT_THAT(message(overlap), HasSubstr("top_overlap is 4000000000, no number from 0 to 5"));
  last.mutable_end()->set_feed_ns(kLarge);
  EXPECT_THAT(message(last), HasSubstr("feed_ns is 9223372036854775813"));
  EXPECT_FALSE(end.has_value());
}

// How many tokens a text has is the worker's word, but not any word.
TEST_F(DriftSuiteTest, FewerPositionsThanATextCanHaveBreakTheProtocol) {
  DriftJob job;
  job.text = std::string(128 * 10, 'x');
  const auto check = [&job](int64_t asked, int64_t positions) {
    job.positions = asked;
    DriftStart start;
    start.positions = positions;
    start.measurement = "hash";
    return DriftCheck(job, /*needs_noise_floor=*/false).Start(start);
  };
  for (const auto& [positions, is_good] : {std::pair(1, false), {8, false}, {9, true}, {20, true}, {21, false}}) {
    EXPECT_EQ(check(20, positions).ok(), is_good) << positions;
  }
  EXPECT_FALSE(check(0, 8).ok());
  EXPECT_TRUE(check(0, 1279).ok());
  EXPECT_TRUE(check(5, 5).ok());
  EXPECT_THAT(std::string(check(5, 4).message()), HasSubstr("has 5 to 5 of what was asked"));
}

TEST_F(DriftSuiteTest, MeasurementsOfATextAreEquallyLong) {
  Select({"split-float32", "dense-float32"});
  TextWorker worker(DriftCheat::kNone);
  int starts = 0;
  worker.change_start = [&starts](DriftStart& start) {
    if (++starts == 2) start.positions = 1;
  };
  const auto report = Run(worker);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->items[0].status, CaseStatus::kPass);
  EXPECT_EQ(report->items[1].status, CaseStatus::kError);
  EXPECT_THAT(report->items[1].attempts.at(0).message,
              HasSubstr("a measurement of 1 positions, another one of the same text and base had 20"));
  DriftLengths lengths;
  EXPECT_TRUE(lengths.Agree("prose", "a", 20).ok());
  EXPECT_TRUE(lengths.Agree("prose", "another base", 19).ok());
  EXPECT_FALSE(lengths.Agree("prose", "a", 19).ok());
}

// Shown to people, so it may hold nothing that does not show; and no worker fills the disk with it.
TEST_F(DriftSuiteTest, PredictedTextsAreCutAndMadePrintable) {
  TextWorker worker(DriftCheat::kNone);
  worker.change_rows = [](DriftChunk& chunk) {
    chunk.predicted[0] = std::string(1'000'000, 'x');
    chunk.predicted[1] = "bad\xff\n";
    chunk.predicted[2] = std::string(63, 'y') + "\xc3\xa9";
  };
  const ItemRow item = RunOne(worker, "split-float32");
  ASSERT_EQ(item.status, CaseStatus::kPass) << item.attempts[0].message;
  EXPECT_EQ(item.drift->predicted[0], std::string(64, 'x'));
  EXPECT_EQ(item.drift->predicted[1], "bad\\xff\\n");
  EXPECT_EQ(item.drift->predicted[2], std::string(63, 'y')) << "a character is not cut in two";
}

TEST_F(DriftSuiteTest, AFigureOutOfItsBoundIsAWrongAnswer) {
  for (const char* probe : {"split-float32", "split-bfloat16-after-launch", "dense-float32", "dense-bfloat16"}) {
    TextWorker worker(DriftCheat::kDrifts);
    const ItemRow item = RunOne(worker, probe);
    EXPECT_EQ(item.status, CaseStatus::kFail) << probe;
    EXPECT_EQ(item.attempts.size(), 1u);
    EXPECT_THAT(item.attempts[0].message, HasSubstr("NOT MET"));
    EXPECT_TRUE(item.drift->complete());
  }
  TextWorker worker(DriftCheat::kDrifts);
  EXPECT_EQ(RunOne(worker, "dense-float32-after-launch").status, CaseStatus::kPass) << "nothing is promised of this KL";
}

TEST_F(DriftSuiteTest, AShareOfMachineIdsIsAWrongAnswerEverywhere) {
  for (const DriftProbe& probe : AllDriftProbes()) {
    TextWorker worker(DriftCheat::kShare);
    EXPECT_EQ(RunOne(worker, probe.Name()).status, CaseStatus::kFail) << probe.Name();
  }
}

TEST_F(DriftSuiteTest, AWrongLaunchBeforeTheTextIsAWrongAnswerWithoutRows) {
  const std::pair<DriftCheat, const char*> cheats[] = {
      {DriftCheat::kWrongLaunch, "expected "}, {DriftCheat::kShortLaunch, "expected DONE, the model wrote end"}};
  for (const auto& [cheat, message] : cheats) {
    TextWorker worker(cheat);
    const ItemRow item = RunOne(worker, "dense-float32-after-launch");
    EXPECT_EQ(item.status, CaseStatus::kFail);
    ASSERT_EQ(item.attempts.size(), 1u);
    EXPECT_THAT(item.attempts[0].message, HasSubstr("the launch before the text: position "));
    EXPECT_THAT(item.attempts[0].message, HasSubstr(message));
    EXPECT_EQ(item.attempts[0].launch->odd_one_out, "model");
    EXPECT_GT(item.attempts[0].launch->mismatches, 0);
    EXPECT_TRUE(item.drift->drift.rows.empty());
  }
}

TEST_F(DriftSuiteTest, AWorkerWithoutABaseIsUnsupportedWithTheRemedy) {
  TextWorker worker(DriftCheat::kNone);
  worker.probes.clear();
  ItemRow item = RunOne(worker, "dense-float32");
  EXPECT_EQ(item.status, CaseStatus::kUnsupported);
  EXPECT_THAT(item.attempts[0].message, HasSubstr("worker fake hosts no base model"));
  EXPECT_THAT(item.attempts[0].message, HasSubstr("--base DIR"));
  worker.probes = {"split-float32"};
  item = RunOne(worker, "dense-float32");
  EXPECT_EQ(item.status, CaseStatus::kUnsupported);
  EXPECT_THAT(item.attempts[0].message, HasSubstr("cannot measure dense-float32, only split-float32"));
  EXPECT_TRUE(worker.calls.empty());
}

TEST_F(DriftSuiteTest, AConnectionThatIsLostCostsOneChunkAtMost) {
  TextWorker undisturbed(DriftCheat::kNone);
  const ItemRow whole = RunOne(undisturbed, "dense-bfloat16");
  TextWorker worker(DriftCheat::kNone);
  worker.dies_after = 2;
  const ItemRow item = RunOne(worker, "dense-bfloat16");
  EXPECT_EQ(item.status, CaseStatus::kPass);
  EXPECT_THAT(worker.calls, ElementsAre(0, 16));
  ASSERT_EQ(item.attempts.size(), 2u);
  EXPECT_EQ(item.attempts[0].status, CaseStatus::kInfra);
  ASSERT_EQ(item.drift->drift.rows.size(), whole.drift->drift.rows.size());
  for (size_t i = 0; i < whole.drift->drift.rows.size(); ++i) {
    EXPECT_EQ(item.drift->drift.rows[i].kl, whole.drift->drift.rows[i].kl) << i;
    EXPECT_EQ(item.drift->noise.rows[i].merged_surprise, whole.drift->noise.rows[i].merged_surprise) << i;
    EXPECT_EQ(item.drift->predicted[i], whole.drift->predicted[i]) << i;
  }
}

// The last rows are there, but nobody said that the measurement is over: one chunk is asked for again.
TEST_F(DriftSuiteTest, AConnectionThatIsLostBehindTheLastRowIsTakenUpBeforeIt) {
  TextWorker worker(DriftCheat::kNone);
  worker.dies_after = 3;
  const ItemRow item = RunOne(worker, "split-float32");
  EXPECT_EQ(item.status, CaseStatus::kPass);
  EXPECT_THAT(worker.calls, ElementsAre(0, 16));
  EXPECT_EQ(item.drift->drift.rows.size(), 20u);
}

// Rows of a part of a chunk were not fed in the pieces that a worker feeds: only whole chunks are gone on with.
TEST_F(DriftSuiteTest, APartOfAChunkIsMeasuredAgain) {
  TextWorker worker(DriftCheat::kNone);
  worker.dies_after = 2;
  bool cut = false;
  worker.change_rows = [&cut](DriftChunk& chunk) {
    if (chunk.first_position != 8 || cut) return;
    cut = true;
    chunk.rows.resize(5);
    chunk.noise.resize(5);
    chunk.predicted.resize(5);
  };
  const ItemRow item = RunOne(worker, "dense-float32");
  EXPECT_EQ(item.status, CaseStatus::kPass) << item.LastAttempt()->message;
  EXPECT_THAT(worker.calls, ElementsAre(0, 8));
  EXPECT_EQ(item.drift->drift.rows.size(), 20u);
}

// Interrupts a run after the second chunk of the first of two texts.
int64_t Interrupt(std::stop_source& stop, TextWorker& worker, const std::function<absl::StatusOr<RunReport>()>& run) {
  int chunks = 0;
  worker.on_chunk = [&] {
    if (++chunks == 2) stop.request_stop();
  };
  const auto report = run();
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->run.state, "interrupted");
  EXPECT_FALSE(report->items[0].status.has_value());
  EXPECT_EQ(report->items[0].drift->drift.rows.size(), 16u);
  EXPECT_TRUE(report->items[0].attempts.empty()) << "a call that was cancelled says nothing";
  stop = std::stop_source();
  return report->run.id;
}

TEST_F(DriftSuiteTest, AnInterruptedRunIsTakenUpAtItsLastWholeChunk) {
  Select({"dense-float32"}, {"prose", "code"});
  TextWorker first(DriftCheat::kNone);
  plan_.take_up = Interrupt(stop_, first, [&] { return Run(first); });
  TextWorker second(DriftCheat::kNone);
  const auto report = Run(second);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->run.id, plan_.take_up);
  EXPECT_EQ(report->run.state, "finished");
  EXPECT_EQ(VerdictExitCode(*report), kExitGood);
  EXPECT_THAT(second.calls, ElementsAre(16, 0));
  EXPECT_EQ(store_->ListRuns()->size(), 1u);
  bool is_noted = false;
  for (const auto& [name, value] : report->run.manifest) is_noted = is_noted || name == "taken up";
  EXPECT_TRUE(is_noted);
  // It is finished now.
  const auto again = Run(second);
  EXPECT_EQ(ExitCodeFor(again.status()), kExitUsage);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("is finished"));
}

TEST_F(DriftSuiteTest, AWorkerThatMeasuresSomethingElseNowStartsAnew) {
  Select({"dense-float32"}, {"prose"});
  TextWorker first(DriftCheat::kNone, "weights of yesterday");
  plan_.take_up = Interrupt(stop_, first, [&] { return Run(first); });
  const std::string before = store_->ReadRun(plan_.take_up)->items[0].drift->measurement;
  TextWorker second(DriftCheat::kNone, "weights of today");
  const auto report = Run(second);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(second.calls, ElementsAre(16, 0));
  EXPECT_EQ(report->items[0].status, CaseStatus::kPass);
  EXPECT_EQ(report->items[0].attempts.size(), 1u);
  EXPECT_NE(report->items[0].drift->measurement, before);
  // All rows are of the new measurement.
  TextWorker third(DriftCheat::kNone, "weights of today");
  plan_.take_up = 0;
  const auto whole = Run(third);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(report->items[0].drift->drift.rows[i].kl, whole->items[0].drift->drift.rows[i].kl) << i;
  }
}

TEST_F(DriftSuiteTest, ARunThatIsBeingRunCannotBeTakenUp) {
  Select({"split-float32"});
  TextWorker worker(DriftCheat::kNone);
  plan_.take_up = Interrupt(stop_, worker, [&] { return Run(worker); });
  auto other = *Store::Open(folder_ + "/qgpu.db");
  ASSERT_TRUE(other->ClaimRun(plan_.take_up).ok());
  const auto refused = Run(worker);
  EXPECT_EQ(ExitCodeFor(refused.status()), kExitUsage);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("is being run by another coordinator"));
  EXPECT_EQ(store_->ReadRun(plan_.take_up)->run.state, "interrupted");
  other.reset();
  worker.on_chunk = nullptr;
  EXPECT_TRUE(Run(worker).ok());
}

}  // namespace
}  // namespace qgpu
