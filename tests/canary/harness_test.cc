// The service's programs from outside: refusals, exit codes, signals, and who dies with whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/exit_code.h"
#include "common/file.h"
#include "coordinator/store/store.h"
#include "proto/server.h"
#include "tests/canary/programs.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Suite(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run-suite", "--worker-program", CanaryWorker()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(RefusalTest, UsageErrorsExitWithTwoAndRunNothing) {
  const TestFolder folder;
  std::ofstream(folder / "unknown.txt") << "dot/demo\ndot/no_such_case\n";
  std::ofstream(folder / "empty.txt") << "# nothing\n";
  const std::pair<std::vector<std::string>, std::string> refused[] = {
      {Suite({"--filter", "no_such_kernel*"}), "--filter no_such_kernel* matches no case"},
      {Suite({"--case-list", "unknown.txt"}), "no case is called \"dot/no_such_case\""},
      {Suite({"--case-list", "empty.txt"}), "no case in it"},
      {Suite({"--case-list", "missing.txt"}), "missing.txt"},
      {Suite({"no_such_suite"}), "no_such_suite"},
      {Suite({"--report", "pdf=x.pdf"}), "one of the formats html, csv, drift-csv"},
      {Suite({"--report", "html=no/such/folder/x.html"}), "cannot write to no/such/folder/"},
      {Suite({"--report", "html=/tmp"}), "is a folder; name a file"},
      {Suite({"--report", "html=same", "--report", "csv=same"}), "another report goes to the same file"},
      {Suite({"--repetitions", "0"}), "--repetitions"},
      {Suite({"--no-such-flag"}), "--no-such-flag"},
      {Suite({"--node", "localhost"}), "no port"},
      {Suite({"--node", "example.org:5", "--filter", "dot/demo"}), "is not a loopback address"},
      {Suite({"--node", "127.0.0.1:5", "--circuit", "c.bin"}), "--circuit is for the local worker"},
      {Suite({"--node", "127.0.0.1:5", "--base", "dir"}), "--base is for the local worker"},
      {Suite({"--node", "127.0.0.1:5", "--device", "cuda"}), "--device is for the local worker"},
      {{"run-suite", "--worker-program", "/no/such/program"}, "no program /no/such/program"},
      {{}, "subcommand is required"},
      {{"runs", "list"}, "no database qgpu.db"},
      {{"report", "--db", "other.db"}, "no database other.db"}};
  for (const auto& [arguments, message] : refused) {
    const Finished run = RunCoordinator(folder, arguments);
    EXPECT_EQ(run.exit_code, kExitUsage) << message << run.err;
    EXPECT_THAT(run.err + run.out, HasSubstr(message));
    EXPECT_THAT(run.out, Not(HasSubstr("kernels")));
    unlink((folder / "qgpu.db").c_str());
  }
}

TEST(RefusalTest, ABrokenCircuitIsRefusedByTheWorkerWithItsMessage) {
  const TestFolder folder;
  std::ofstream(folder / "broken.bin") << "no circuit at all";
  const Finished run = RunCoordinator(folder, {"run-suite", "--filter", "dot/demo", "--circuit", "broken.bin"});
  EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
  EXPECT_THAT(run.err, HasSubstr("broken.bin"));
  EXPECT_THAT(run.err, HasSubstr("qgpu-worker: "));
}

TEST(RefusalTest, ADatabaseOfANewerSchema) {
  const TestFolder folder;
  ASSERT_TRUE(Store::Open(folder / "qgpu.db").ok());
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "qgpu.db").c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA user_version = 9999", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  const Finished run = RunCoordinator(folder, Suite({"--filter", "dot/demo"}));
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("has schema version 9999"));
}

class ServerProgram : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Program() const { return GetParam() == "qgpu-canary-worker" ? CanaryWorker() : ProgramPath(GetParam()); }
};

TEST_P(ServerProgram, AnOccupiedPortIsAnErrorThatNamesIt) {
  const TestFolder folder;
  RunningProgram first(folder, Program(), {});
  ASSERT_TRUE(first.WaitForText("\"address\":\"")) << first.Err();
  const std::string line = first.Out();
  const size_t start = line.find("127.0.0.1:");
  const std::string address = line.substr(start, line.find('"', start) - start);
  RunningProgram second(folder, Program(), {"--listen", address});
  EXPECT_EQ(second.Wait(30), kExitUsage);
  EXPECT_THAT(second.Err(), HasSubstr("cannot listen on " + address));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(30), 128 + SIGTERM);
}

TEST_P(ServerProgram, AnOpenAddressNeedsProtectionOrInsecure) {
  const TestFolder folder;
  RunningProgram refused(folder, Program(), {"--listen", "0.0.0.0:0"});
  EXPECT_EQ(refused.Wait(30), kExitUsage);
  EXPECT_THAT(refused.Err(), HasSubstr("--tls-ca"));
  RunningProgram accepted(folder, Program(), {"--listen", "0.0.0.0:0", "--insecure"});
  EXPECT_TRUE(accepted.WaitForText("\"address\":\"0.0.0.0:")) << accepted.Err();
  accepted.Signal(SIGINT);
  EXPECT_EQ(accepted.Wait(30), 128 + SIGINT);
}

TEST_P(ServerProgram, EndsWithItsStandardInputIfAskedTo) {
  const TestFolder folder;
  RunningProgram program(folder, Program(), {"--exit-with-stdin"});  // stdin is /dev/null
  EXPECT_EQ(program.Wait(30), kExitGood);
}

INSTANTIATE_TEST_SUITE_P(Programs, ServerProgram, ::testing::Values("qgpu-oracle", "qgpu-canary-worker"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(RunSuiteTest, DryRunListsTheCasesAndWritesNothing) {
  const TestFolder folder;
  const Finished all = RunCoordinator(folder, Suite({"--dry-run"}));
  EXPECT_EQ(all.exit_code, kExitGood);
  EXPECT_THAT(all.out, HasSubstr("kernels dot/demo\n"));
  const Finished quick = RunCoordinator(folder, Suite({"--dry-run", "--quick"}));
  EXPECT_EQ(std::count(quick.out.begin(), quick.out.end(), '\n'), 49 + 6);
  EXPECT_THAT(quick.out, HasSubstr("drift dense-bfloat16/prose\n"));
  EXPECT_NE(access((folder / "qgpu.db").c_str(), F_OK), 0);
}

TEST(RunSuiteTest, RunsAreKeptAndReportedAgain) {
  const TestFolder folder;
  std::ofstream(folder / "list.txt") << "  dot/demo  # the demo\n\ngcd/small\n";
  const Finished run = RunCoordinator(
      folder, Suite({"--case-list", "list.txt", "--repetitions", "2", "--report", "csv=out.csv", "--db", "mine.db"}));
  ASSERT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(run.out, StartsWith("kernels 2/2\n"));
  EXPECT_THAT(run.err, HasSubstr("4/4 items"));
  const std::string csv = ReadFile(folder / "out.csv").value_or("");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 4);
  EXPECT_NE(access((folder / "report.html").c_str(), F_OK), 0);

  const Finished list = RunCoordinator(folder, {"runs", "list", "--db", "mine.db"});
  EXPECT_THAT(list.out, StartsWith("1\t"));
  EXPECT_THAT(list.out, HasSubstr("\tkernels\tfinished\t0\n"));
  const Finished show = RunCoordinator(folder, {"runs", "show", "--db", "mine.db"});
  EXPECT_THAT(show.out, HasSubstr("pass\tgcd/small\tlocal\t2\t\n"));
  const Finished again = RunCoordinator(folder, {"report", "1", "--db", "mine.db", "--format", "csv"});
  EXPECT_EQ(again.out, csv);
  EXPECT_EQ(RunCoordinator(folder, {"report", "7", "--db", "mine.db"}).exit_code, kExitUsage);
}

TEST(RunSuiteTest, GivenWorkersAndOraclesAreUsed) {
  const TestFolder folder;
  RunningProgram worker(folder, CanaryWorker(), {}), oracle(folder, ProgramPath("qgpu-oracle"), {});
  const auto address_of = [](RunningProgram& program) {
    EXPECT_TRUE(program.WaitForText("}\n")) << program.Err();
    const std::string line = program.Out();
    const size_t start = line.find("127.0.0.1:");
    return line.substr(start, line.find('"', start) - start);
  };
  const std::string worker_address = address_of(worker);
  const Finished run = RunCoordinator(
      folder, {"run-suite", "--node", worker_address, "--oracle", address_of(oracle), "--filter", "dot/demo"});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(ReadFile(folder / "report.html").value_or(""), HasSubstr(worker_address));
}

TEST(RunSuiteTest, AnUnreachableWorkerIsInfrastructure) {
  const TestFolder folder;
  const Finished run = RunCoordinator(folder, Suite({"--node", "127.0.0.1:1", "--filter", "dot/demo"}));
  EXPECT_EQ(run.exit_code, kExitInfrastructure) << run.err;
  EXPECT_THAT(run.err, HasSubstr("worker 127.0.0.1:1: nobody answers there"));
}

bool HasChildren(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/task/{}/children", pid, pid);
  return !ReadFile(path).value_or("").empty();
}

// Programs started from `folder` that still run, by their working directory.
int ProgramsIn(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code none;
    const auto cwd = std::filesystem::read_symlink(entry.path() / "cwd", none);
    if (!none && cwd == folder) ++count;
  }
  return count;
}

bool NothingRunsIn(const std::string& folder) {
  for (int i = 0; i < 500 && ProgramsIn(folder) > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return ProgramsIn(folder) == 0;
}

TEST(SignalTest, AnInterruptedRunKeepsWhatIsFinishedAndEndsItsChildren) {
  for (const int number : {SIGINT, SIGTERM}) {
    const TestFolder folder;
    // The canary hangs at every launch; nothing finishes by itself.
    RunningProgram run(folder, ProgramPath("qgpu-coordinator"), Suite({"--filter", "dot/*"}),
                       {{"QGPU_CANARY", "hang"}});
    ASSERT_TRUE(run.WaitForText("run 1: ")) << run.Err();
    EXPECT_TRUE(HasChildren(run.pid()));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    run.Signal(number);
    EXPECT_EQ(run.Wait(30), 128 + number) << run.Err();
    EXPECT_THAT(run.Err(), HasSubstr("interrupted: run 1 holds 0 of "));
    EXPECT_EQ(run.Out(), "");
    EXPECT_TRUE(NothingRunsIn(folder.path()));
    auto store = Store::Open(folder / "qgpu.db");
    ASSERT_TRUE(store.ok());
    EXPECT_EQ((*store)->ReadRun(1)->run.state, "interrupted");
  }
}

TEST(SignalTest, ChildrenEndWhenTheCoordinatorIsKilled) {
  const TestFolder folder;
  RunningProgram run(folder, ProgramPath("qgpu-coordinator"), Suite({"--filter", "dot/demo"}),
                     {{"QGPU_CANARY", "hang"}});
  ASSERT_TRUE(run.WaitForText("run 1: ")) << run.Err();
  EXPECT_GE(ProgramsIn(folder.path()), 3);
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(10), 128 + SIGKILL);
  EXPECT_TRUE(NothingRunsIn(folder.path()));
}

TEST(VersionTest, EveryProgramSaysItsVersion) {
  const TestFolder folder;
  for (const char* name : {"qgpu-coordinator", "qgpu-worker", "qgpu-oracle"}) {
    RunningProgram program(folder, ProgramPath(name), {"--version"});
    EXPECT_EQ(program.Wait(30), kExitGood);
    EXPECT_THAT(program.Out(), StartsWith(std::string(name) + " "));
  }
}

}  // namespace
}  // namespace qgpu
