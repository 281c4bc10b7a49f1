#include "coordinator/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/exit_code.h"
#include "coordinator/store/schema.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/qgpu_store_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/qgpu.db";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void Sql(const std::string& path, const std::string& sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  static int64_t Number(const std::string& path, const std::string& sql) {
    auto database = Database::Open(path);
    auto statement = (*database)->Prepare(sql);
    EXPECT_TRUE(statement.ok() && *statement->Step());
    return statement->Integer(0);
  }

  std::string folder_, path_;
};

RunRow ExampleRun() {
  RunRow run;
  run.started_ms = 1'700'000'000'123;
  run.repetitions = 2;
  run.quick = true;
  run.suites = {{"kernels", "aa"}, {"extra", "bb"}};
  run.manifest = {{"zeta", "1"}, {"alpha", "two \"words\""}};
  return run;
}

NodeRow ExampleWorker() {
  NodeRow node;
  node.role = "worker";
  node.name = "local";
  node.address = "127.0.0.1:5";
  node.program = "qgpu-worker";
  node.version = "0.1.0";
  node.host = "box";
  node.logical_processors = 2;
  node.circuit_hash = "0123456789abcdef";
  node.base = "none";
  node.form = "sparse split float32";
  node.layers = 28;
  return node;
}

AttemptRow FullAttempt(const std::string& id) {
  AttemptRow attempt;
  attempt.id = id;
  attempt.started_ms = 10;
  attempt.finished_ms = 20;
  attempt.status = CaseStatus::kFail;
  attempt.message = "position 3: it's wrong";
  attempt.launch.emplace();
  attempt.launch->tokens = 40;
  attempt.launch->passes = 5;
  attempt.launch->host_tokens = 300;
  attempt.launch->positions_checked = 40;
  attempt.launch->mismatches = 2;
  attempt.launch->end = "done";
  attempt.launch->odd_one_out = "model";
  attempt.launch->native_witness = "native-cpu";
  attempt.launch->token_difference = TokenDifference{3, "EXEC(1, 0b1111)", "DONE"};
  attempt.launch->word_difference = DifferingWord{"word 9 (byte 36)", 9, 1u, 0xffffffffu, std::nullopt, 12};
  attempt.samples = {{"decode", "ms", 1.5}, {"read", "ms", 0.125}};
  return attempt;
}

TEST_F(StoreTest, ARunComesBackAsItWasWritten) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  const RunRow run = ExampleRun();
  const int64_t run_id = *(*store)->BeginRun(run);
  const int64_t node_id = *(*store)->AddNode(run_id, ExampleWorker());
  const auto items = (*store)->AddItems(run_id, run, {{"kernels", "dot", "small", "h1"}, {"extra", "gcd", "one", "h2"}},
                                        {{0, node_id, 1}, {0, node_id, 2}, {1, node_id, 1}});
  ASSERT_TRUE(items.ok()) << items.status();
  AttemptRow lost = FullAttempt("7-1");
  lost.launch.reset();
  lost.samples.clear();
  lost.status = CaseStatus::kInfra;
  AttemptRow wrong = FullAttempt("7-2");
  wrong.number = 2;
  ASSERT_TRUE((*store)->RecordAttempt((*items)[0], lost, std::nullopt).ok());
  ASSERT_TRUE((*store)->RecordAttempt((*items)[0], wrong, CaseStatus::kFail).ok());
  ASSERT_TRUE((*store)->FinishRun(run_id, "finished", 1, 99).ok());

  store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto report = (*store)->ReadRun(run_id);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->run.started_ms, run.started_ms);
  EXPECT_EQ(report->run.state, "finished");
  EXPECT_EQ(report->run.exit_code, 1);
  EXPECT_TRUE(report->run.quick);
  EXPECT_EQ(report->run.suites, run.suites);
  EXPECT_EQ(report->run.manifest, run.manifest);
  ASSERT_EQ(report->nodes.size(), 1u);
  EXPECT_EQ(report->nodes[0].form, "sparse split float32");
  EXPECT_EQ(report->nodes[0].layers, 28);
  ASSERT_EQ(report->items.size(), 3u);
  const ItemRow& item = report->items[0];
  EXPECT_EQ(item.CaseId(), "dot/small");
  EXPECT_EQ(item.case_hash, "h1");
  EXPECT_EQ(item.status, CaseStatus::kFail);
  ASSERT_EQ(item.attempts.size(), 2u);
  EXPECT_FALSE(item.attempts[0].launch.has_value());
  EXPECT_EQ(item.attempts[1].message, wrong.message);
  EXPECT_TRUE(item.attempts[1].launch == wrong.launch);
  EXPECT_EQ(item.attempts[1].samples, wrong.samples);
  EXPECT_EQ(report->items[1].repetition, 2);
  EXPECT_FALSE(report->items[1].status.has_value());
  EXPECT_EQ(report->items[2].suite, "extra");
  EXPECT_EQ(*(*store)->NewestRun(), run_id);
  EXPECT_EQ((*store)->ReadRun(run_id + 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, SameMachinesSuitesAndCasesAreStoredOnce) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  const RunRow run = ExampleRun();
  for (int i = 0; i < 2; ++i) {
    const int64_t run_id = *(*store)->BeginRun(run);
    const int64_t node_id = *(*store)->AddNode(run_id, ExampleWorker());
    ASSERT_TRUE((*store)->AddItems(run_id, run, {{"kernels", "dot", "small", "h1"}}, {{0, node_id, 1}}).ok());
  }
  EXPECT_EQ((*store)->ListRuns()->size(), 2u);
  EXPECT_EQ((*store)->ListRuns()->at(0).id, 2);
  for (const char* table : {"machine", "build", "model", "suite_case"}) {
    EXPECT_EQ(Number(path_, fmt::format("SELECT count(*) FROM {}", table)), 1) << table;
  }
  EXPECT_EQ(Number(path_, "SELECT count(*) FROM item"), 2);
}

TEST_F(StoreTest, ALateCopyOfAnAttemptChangesNothing) {
  auto store = Store::Open(path_);
  const RunRow run = ExampleRun();
  const int64_t run_id = *(*store)->BeginRun(run);
  const int64_t node_id = *(*store)->AddNode(run_id, ExampleWorker());
  const auto items = *(*store)->AddItems(run_id, run, {{"kernels", "dot", "small", "h1"}}, {{0, node_id, 1}});
  ASSERT_TRUE((*store)->RecordAttempt(items[0], FullAttempt("1"), CaseStatus::kFail).ok());
  ASSERT_TRUE((*store)->RecordAttempt(items[0], FullAttempt("1"), CaseStatus::kPass).ok());
  EXPECT_EQ((*store)->ReadRun(run_id)->items[0].status, CaseStatus::kFail);
}

TEST_F(StoreTest, ADatabaseOfANewerSchemaIsRefusedUnchanged) {
  ASSERT_TRUE(Store::Open(path_).ok());
  const int64_t known = static_cast<int64_t>(SchemaSteps().size());
  EXPECT_EQ(Number(path_, "PRAGMA user_version"), known);
  Sql(path_, fmt::format("PRAGMA user_version = {}", known + 1));
  const auto refused = Store::Open(path_);
  EXPECT_EQ(ExitCodeFor(refused.status()), kExitUsage);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(fmt::format("has schema version {}, this program knows versions up to {}", known + 1, known)));
  EXPECT_EQ(Number(path_, "PRAGMA user_version"), known + 1);
}

TEST_F(StoreTest, OtherFilesAreRefusedUnchanged) {
  Sql(path_, "CREATE TABLE theirs (x)");
  EXPECT_EQ(ExitCodeFor(Store::Open(path_).status()), kExitUsage);
  EXPECT_EQ(Number(path_, "SELECT count(*) FROM sqlite_master"), 1);

  const std::string text = folder_ + "/notes.txt";
  std::ofstream(text) << std::string(2000, 'x');
  const absl::Status no_database = Store::Open(text).status();
  EXPECT_EQ(ExitCodeFor(no_database), kExitUsage) << no_database;
  EXPECT_EQ(std::filesystem::file_size(text), 2000u);

  EXPECT_EQ(ExitCodeFor(Store::Open(folder_ + "/missing/qgpu.db").status()), kExitUsage);
}

TEST_F(StoreTest, ForeignKeysHoldAndTheJournalIsWal) {
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE((*store)->RecordAttempt(12345, FullAttempt("1"), CaseStatus::kPass).ok());
  EXPECT_FALSE((*store)->AddNode(12345, ExampleWorker()).ok());
  auto database = Database::Open(path_);
  auto statement = (*database)->Prepare("PRAGMA journal_mode");
  ASSERT_TRUE(*statement->Step());
  EXPECT_EQ(statement->Text(0), "wal");
}

// A database as the first schema's program left it: taken up, still read, and good for what is new.
TEST_F(StoreTest, ADatabaseOfTheFirstSchemaIsTakenUpAndStillRead) {
  Sql(path_, SchemaSteps()[0]);
  Sql(path_, fmt::format("PRAGMA user_version = 1; PRAGMA application_id = {}", kApplicationId));
  Sql(path_, R"sql(
    INSERT INTO machine VALUES (1, 'box', 'Linux', 'CPU', 2, '');
    INSERT INTO build VALUES (1, 'qgpu-worker', '0.1.0', 'abc', 'Release');
    INSERT INTO model VALUES (1, 'c1', 'c', 'none', 64, 28, 300, 'sparse split float32');
    INSERT INTO suite VALUES (1, 'kernels', 'aa');
    INSERT INTO suite_case VALUES (1, 1, 'dot', 'demo', 'h1');
    INSERT INTO run VALUES (1, 10, 20, 'finished', 0, 0, 1, '{"command":"run-suite"}');
    INSERT INTO run_suite VALUES (1, 1);
    INSERT INTO node VALUES (1, 1, 'worker', 'local', '127.0.0.1:5', 1, 1, 1);
    INSERT INTO item VALUES (1, 1, 1, 1, 1, 'pass');
    INSERT INTO attempt VALUES ('1-1', 1, 1, 11, 12, 'pass', '');
    INSERT INTO sample VALUES ('1-1', 'decode', 'ms', 1.5);
  )sql");
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Number(path_, "PRAGMA user_version"), static_cast<int64_t>(SchemaSteps().size()));
  const auto old = (*store)->ReadRun(1);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->run.suites, (std::vector<SuiteRow>{{"kernels", "aa", SuiteKind::kKernels}}));
  EXPECT_TRUE(old->run.arguments.empty());
  ASSERT_EQ(old->items.size(), 1u);
  EXPECT_EQ(old->items[0].kind, SuiteKind::kKernels);
  EXPECT_EQ(old->items[0].status, CaseStatus::kPass);
  EXPECT_EQ(old->items[0].attempts[0].samples[0].value, 1.5);
  EXPECT_FALSE(old->items[0].drift.has_value());
  // The same suite is the same row, a drift suite is a new one.
  RunRow run = ExampleRun();
  run.suites = {{"kernels", "aa", SuiteKind::kKernels}, {"drift", "dd", SuiteKind::kDrift}};
  run.arguments = {"drift", "--filter", "a b\"c"};
  const int64_t run_id = *(*store)->BeginRun(run);
  EXPECT_EQ(Number(path_, "SELECT count(*) FROM suite"), 2);
  EXPECT_EQ((*store)->ReadRun(run_id)->run.suites, run.suites);
  EXPECT_EQ((*store)->ReadRun(run_id)->run.arguments, run.arguments);
}

class DriftStoreTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    store_ = *Store::Open(path_);
    RunRow run = ExampleRun();
    run.suites = {{"drift", "dd", SuiteKind::kDrift}};
    run_id_ = *store_->BeginRun(run);
    const int64_t node_id = *store_->AddNode(run_id_, ExampleWorker());
    item_id_ = store_->AddItems(run_id_, run, {{"drift", "dense-bfloat16", "prose", "h"}}, {{0, node_id, 1}})->at(0);
    measurement_.measurement = "m1";
    measurement_.positions = 3;
    measurement_.token_source = "tokens";
    measurement_.reference = "base";
    measurement_.merged = "merged";
    rows_ = {{1e-12, 1e-30, 1.0 / 3, 2.5, true, 5}, {0, 0, 3, 4, false, 0}, {-1e-16, 1, 5, 6, true, 2}};
    noise_ = {{0.25, 0, 2.0 / 3, 7, false, 1}, {0.5, 0, 3.5, 8, true, 2}, {0, 0, 5, 9, true, 3}};
    predicted_ = {"a", "", "\xc3\xa9"};
  }
  std::unique_ptr<Store> store_;
  int64_t run_id_ = 0, item_id_ = 0;
  DriftRow measurement_;
  std::vector<RowDrift> rows_, noise_;
  std::vector<std::string> predicted_;
};

std::vector<std::string> Texts(const std::vector<RowDrift>& rows) {
  std::vector<std::string> texts;
  for (const RowDrift& row : rows) {
    texts.push_back(fmt::format("{} {} {} {} {} {}", row.kl, row.machine_share, row.base_surprise, row.merged_surprise,
                                row.same_top, row.top_overlap));
  }
  return texts;
}

TEST_F(DriftStoreTest, RowsComeBackBitForBitAsTheyWereAppended) {
  EXPECT_FALSE(store_->ReadDrift(item_id_)->has_value());
  const std::span<const RowDrift> rows(rows_), noise(noise_);
  const std::span<const std::string> predicted(predicted_);
  ASSERT_TRUE(store_->BeginDrift(item_id_, measurement_).ok());
  ASSERT_TRUE(store_->AppendDrift(item_id_, 0, rows.first(2), noise.first(2), predicted.first(2)).ok());
  EXPECT_FALSE((*store_->ReadDrift(item_id_))->complete());
  ASSERT_TRUE(store_->AppendDrift(item_id_, 2, rows.last(1), noise.last(1), predicted.last(1)).ok());
  store_ = *Store::Open(path_);
  const auto report = store_->ReadRun(run_id_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->items[0].kind, SuiteKind::kDrift);
  const DriftRow& row = *report->items[0].drift;
  EXPECT_TRUE(row.complete());
  EXPECT_EQ(row.measurement, "m1");
  EXPECT_EQ(row.token_source + row.reference + row.merged, "tokensbasemerged");
  EXPECT_EQ(row.drift.name, "prose");
  EXPECT_EQ(Texts(row.drift.rows), Texts(rows_));
  EXPECT_EQ(Texts(row.noise.rows), Texts(noise_));
  EXPECT_EQ(row.predicted, predicted_);
}

TEST_F(DriftStoreTest, RowsThatDoNotFollowAreRefusedAndABeginningDropsThem) {
  ASSERT_TRUE(store_->BeginDrift(item_id_, measurement_).ok());
  ASSERT_TRUE(store_->AppendDrift(item_id_, 0, rows_, {}, predicted_).ok());
  EXPECT_FALSE(store_->AppendDrift(item_id_, 0, rows_, {}, predicted_).ok());
  EXPECT_FALSE(store_->AppendDrift(item_id_, 4, rows_, {}, predicted_).ok());
  EXPECT_FALSE(store_->AppendDrift(item_id_ + 1, 0, rows_, {}, predicted_).ok()) << "no measurement was begun";
  ASSERT_TRUE(store_->CutDrift(item_id_, 2).ok());
  auto row = *store_->ReadDrift(item_id_);
  EXPECT_EQ(row->drift.rows.size(), 2u);
  EXPECT_TRUE(row->noise.rows.empty());
  measurement_.measurement = "m2";
  ASSERT_TRUE(store_->BeginDrift(item_id_, measurement_).ok());
  row = *store_->ReadDrift(item_id_);
  EXPECT_EQ(row->measurement, "m2");
  EXPECT_TRUE(row->drift.rows.empty());
}

TEST_F(DriftStoreTest, ARunHasOneOwnerUntilItEnds) {
  auto other = *Store::Open(path_);
  EXPECT_EQ(ExitCodeFor(other->ClaimRun(run_id_)), kExitUsage);
  EXPECT_TRUE(other->ClaimRun(run_id_ + 1).ok()) << "another run is nobody's business";
  std::filesystem::create_symlink(path_, folder_ + "/link.db");
  auto linked = *Store::Open(folder_ + "/link.db");
  EXPECT_FALSE(linked->ClaimRun(run_id_).ok());
  ASSERT_TRUE(store_->FinishRun(run_id_, "interrupted", 4, 99).ok());
  ASSERT_TRUE(other->ClaimRun(run_id_).ok());
  ASSERT_TRUE(other->TakeUpRun(run_id_, "now").ok());
  ASSERT_TRUE(other->TakeUpRun(run_id_, "again").ok());
  const RunRow run = store_->ReadRun(run_id_)->run;
  EXPECT_EQ(run.state, "running");
  EXPECT_EQ(run.exit_code, -1);
  EXPECT_EQ(run.finished_ms, 0);
  EXPECT_EQ(run.manifest.back(), (std::pair<std::string, std::string>("taken up", "now, again")));
}

// What was recorded is there after the writer was killed without a chance to say goodbye.
TEST_F(StoreTest, RecordedAttemptsSurviveKillMinusNine) {
  const pid_t child = fork();
  if (child == 0) {
    auto store = Store::Open(path_);
    const RunRow run = ExampleRun();
    const int64_t run_id = *(*store)->BeginRun(run);
    const int64_t node_id = *(*store)->AddNode(run_id, ExampleWorker());
    const auto items = *(*store)->AddItems(run_id, run, {{"kernels", "dot", "small", "h1"}}, {{0, node_id, 1}});
    if ((*store)->RecordAttempt(items[0], FullAttempt("1"), CaseStatus::kPass).ok()) kill(getpid(), SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto store = Store::Open(path_);
  ASSERT_TRUE(store.ok());
  const auto report = (*store)->ReadRun(1);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->run.state, "running");
  EXPECT_EQ(report->items[0].status, CaseStatus::kPass);
  EXPECT_EQ(report->items[0].attempts[0].samples.size(), 2u);
}

}  // namespace
}  // namespace qgpu
