// The drift suite with the programs as a person runs them: what a cheating worker leads to, and what kill -9 costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "common/exit_code.h"
#include "common/file.h"
#include "coordinator/store/store.h"
#include "tests/canary/programs.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Arguments(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run-suite", "--worker-program", CanaryWorker()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Finished RunDrift(const TestFolder& folder, const std::string& cheat, std::vector<std::string> more,
                  Environment environment = {}) {
  environment.push_back({"QGPU_DRIFT_CANARY", cheat});
  return RunCoordinator(folder, Arguments(std::move(more)), environment);
}

RunReport StoredRun(const TestFolder& folder) {
  auto store = Store::Open(folder / "qgpu.db");
  EXPECT_TRUE(store.ok()) << store.status();
  auto report = (*store)->ReadRun(1);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

// Everything that was stored of the rows of every item.
std::string RowsOf(const RunReport& report) {
  std::string text;
  for (const ItemRow& item : report.items) {
    if (!item.drift.has_value()) continue;
    text += fmt::format("{} {} of {}\n", item.CaseId(), item.drift->drift.rows.size(), item.drift->positions);
    for (const TextDrift* part : {&item.drift->drift, &item.drift->noise}) {
      for (const RowDrift& row : part->rows) {
        text += fmt::format("{} {} {} {} {} {}\n", row.kl, row.machine_share, row.base_surprise, row.merged_surprise,
                            row.same_top, row.top_overlap);
      }
    }
    for (const std::string& predicted : item.drift->predicted) text += predicted;
  }
  return text;
}

// Two texts through two probes, four chunks each.
const std::vector<std::string> kSmall = {"drift",
                                         "--drift-texts",
                                         "prose,code",
                                         "--drift-probes",
                                         "dense-float32,split-float32-after-launch",
                                         "--drift-positions",
                                         "32",
                                         "--drift-chunk",
                                         "8"};

std::string UndisturbedRows() {
  const TestFolder folder;
  const Finished run = RunDrift(folder, "none", kSmall);
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  return RowsOf(StoredRun(folder));
}

TEST(DriftProgramsTest, AWorkerThatDoesNotCheatPassesAndTheFiguresAreReported) {
  const TestFolder folder;
  const Finished run = RunDrift(folder, "none", {"drift"});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(run.out, HasSubstr("kernels not run\n"));
  EXPECT_THAT(run.out, HasSubstr("mean KL 0 (split), "));
  EXPECT_THAT(run.err, HasSubstr("\nmean KL measured on base: "));
  EXPECT_THAT(run.err, HasSubstr("run 1 in qgpu.db, html in report.html, csv in report.csv\n"));
  const RunReport report = StoredRun(folder);
  EXPECT_EQ(report.items.size(), 30u);
  for (const ItemRow& item : report.items) {
    EXPECT_EQ(item.status, CaseStatus::kPass) << item.CaseId();
    ASSERT_EQ(item.drift->noise.rows.size(), 128u) << item.CaseId();
    for (const RowDrift& row : item.drift->noise.rows) {
      ASSERT_EQ(row.merged_surprise, row.base_surprise + row.kl) << "so the canary makes them up, from the base's own";
    }
  }
  const Finished csv = RunCoordinator(folder, {"report", "--format", "drift-csv"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 30 * 128);
}

struct Cheating {
  const char* cheat;
  int exit_code;
  const char* says;
};

TEST(DriftProgramsTest, CheatsAreCaughtOverTheWireAsWell) {
  const Cheating cheats[] = {{"missing", kExitUsage, "breaks the protocol: it ended after 31 of 32"},
                             {"out-of-order", kExitUsage, "breaks the protocol: rows from position 8 on"},
                             {"too-many", kExitUsage, "breaks the protocol: 1 rows from position 32 on"},
                             {"not-a-number", kExitUsage, "breaks the protocol: position 1: kl is nan"},
                             {"no-rows", kExitUsage, "breaks the protocol: it ended after 0 of 32"},
                             {"drifts", kExitWrong, "NOT MET"},
                             {"share", kExitWrong, "the machine ids' share is 1.000e-03"},
                             {"wrong-launch", kExitWrong, "the launch before the text: position "},
                             {"no-base", kExitUsage, "hosts no base model"}};
  for (const Cheating& cheating : cheats) {
    SCOPED_TRACE(cheating.cheat);
    const TestFolder folder;
    std::vector<std::string> arguments = kSmall;
    arguments.push_back("--quick");
    const Finished run = RunDrift(folder, cheating.cheat, arguments);
    EXPECT_EQ(run.exit_code, cheating.exit_code) << run.err;
    EXPECT_THAT(run.err, HasSubstr(cheating.says));
  }
}

TEST(DriftProgramsTest, AWorkerThatDiesInTheMiddleLeavesTheSameRows) {
  const TestFolder folder;
  const Finished run = RunDrift(folder, "die-once", kSmall, {{"QGPU_CANARY_MARK", folder / "mark"}});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  const RunReport report = StoredRun(folder);
  ASSERT_EQ(report.items[0].attempts.size(), 2u);
  EXPECT_EQ(report.items[0].attempts[0].status, CaseStatus::kCrash);
  EXPECT_THAT(report.items[0].attempts[0].message, HasSubstr("died of signal 6"));
  EXPECT_EQ(RowsOf(report), UndisturbedRows());
}

// A coordinator whose worker takes its time, stopped by `number` once rows of the second item are on the disk.
int RunUntilTheSecondItem(const TestFolder& folder, int number) {
  RunningProgram run(folder, ProgramPath("qgpu-coordinator"), Arguments(kSmall), {{"QGPU_DRIFT_CANARY", "slow"}});
  EXPECT_TRUE(run.WaitForText("run 1: 4 items")) << run.Err();
  for (int i = 0; i < 3000; ++i) {
    const RunReport report = StoredRun(folder);
    if (report.items.size() > 1 && report.items[1].drift.has_value() && !report.items[1].drift->drift.rows.empty())
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Nobody else may take it up meanwhile.
  const Finished other = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(other.exit_code, kExitUsage) << other.err;
  EXPECT_THAT(other.err, HasSubstr("run 1 of qgpu.db is being run by another coordinator"));
  run.Signal(number);
  return run.Wait(30);
}

TEST(DriftProgramsTest, ACoordinatorThatIsKilledIsTakenUpAndLeavesTheSameRows) {
  const TestFolder folder;
  EXPECT_EQ(RunUntilTheSecondItem(folder, SIGKILL), 128 + SIGKILL);
  const RunReport before = StoredRun(folder);
  EXPECT_EQ(before.run.state, "running");
  ASSERT_EQ(before.items[0].status, CaseStatus::kPass);
  const size_t rows_before = before.items[1].drift->drift.rows.size();
  EXPECT_GT(rows_before, 0u);
  ASSERT_FALSE(before.items[3].status.has_value());

  const Finished missing = RunCoordinator(folder, {"run-suite", "--resume", "1", "--dry-run"});
  EXPECT_THAT(missing.out, HasSubstr("drift split-float32-after-launch/code on local, repetition 1\n"));
  EXPECT_THAT(missing.out, Not(HasSubstr("drift dense-float32/prose")));

  // Everything else is known from the run itself.
  const Finished resumed = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(resumed.exit_code, kExitGood) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("of them are done"));
  const RunReport after = StoredRun(folder);
  EXPECT_EQ(after.run.state, "finished");
  EXPECT_EQ(RowsOf(after), UndisturbedRows());
  EXPECT_EQ(after.items[0].attempts[0].finished_ms, before.items[0].attempts[0].finished_ms) << "run again";
}

TEST(DriftProgramsTest, AnInterruptedRunSaysHowToGoOn) {
  const TestFolder folder;
  EXPECT_EQ(RunUntilTheSecondItem(folder, SIGINT), 128 + SIGINT);
  EXPECT_EQ(StoredRun(folder).run.state, "interrupted");
  const Finished resumed = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(resumed.exit_code, kExitGood) << resumed.err;
  EXPECT_EQ(RowsOf(StoredRun(folder)), UndisturbedRows());
}

TEST(DriftProgramsTest, KernelsAreTakenUpTheSameWay) {
  const TestFolder folder;
  RunningProgram run(folder, ProgramPath("qgpu-coordinator"), Arguments({"kernels", "--filter", "dot/*"}),
                     {{"QGPU_CANARY", "hang"}});
  ASSERT_TRUE(run.WaitForText("run 1: ")) << run.Err();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(30), 128 + SIGKILL);
  const size_t count = StoredRun(folder).items.size();
  const Finished resumed = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(resumed.exit_code, kExitGood) << resumed.err;
  const RunReport report = StoredRun(folder);
  EXPECT_EQ(report.items.size(), count);
  for (const ItemRow& item : report.items) {
    EXPECT_EQ(item.status, CaseStatus::kPass) << item.CaseId();
    EXPECT_EQ(item.attempts.size(), 1u) << item.CaseId();
  }
}

TEST(DriftProgramsTest, RunsThatCannotBeTakenUpAreRefused) {
  const TestFolder folder;
  const Finished none = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(none.exit_code, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("no database qgpu.db"));
  EXPECT_EQ(RunUntilTheSecondItem(folder, SIGKILL), 128 + SIGKILL);
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"--resume", "7"}, "has no run 7"},
      {{"--resume", "1", "--drift-positions", "16"}, "the suite drift has another content"},
      {{"--resume", "1", "--filter", "dense-*"}, "it has 4 items, here 2 are selected"},
      {{"--resume", "1", "--repetitions", "2"}, "repetitions: 1 then, 2 now"},
      {{"--resume", "1", "kernels"}, "its suites are drift, here kernels"}};
  for (const auto& [more, message] : refused) {
    std::vector<std::string> arguments = {"run-suite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = RunCoordinator(folder, arguments);
    EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
  }
  EXPECT_EQ(StoredRun(folder).run.state, "running");
  EXPECT_EQ(RunCoordinator(folder, {"run-suite", "--resume", "1"}).exit_code, kExitGood);
  const Finished finished = RunCoordinator(folder, {"run-suite", "--resume", "1"});
  EXPECT_EQ(finished.exit_code, kExitUsage);
  EXPECT_THAT(finished.err, HasSubstr("run 1 is finished"));
}

}  // namespace
}  // namespace qgpu
