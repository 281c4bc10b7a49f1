// The harness proves that it can fail: every canary must be caught, and the one that does not cheat must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/exit_code.h"
#include "coordinator/store/store.h"
#include "tests/canary/programs.h"

namespace qgpu {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Finished RunCanary(const TestFolder& folder, const std::string& cheat, const std::string& filter,
                   std::vector<std::string> more = {}, Environment environment = {}) {
  std::vector<std::string> arguments = {"run-suite", "--worker-program", CanaryWorker(), "--filter",
                                        filter,      "--native",         "native-cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  environment.push_back({"QGPU_CANARY", cheat});
  return RunCoordinator(folder, arguments, environment);
}

RunReport StoredRun(const TestFolder& folder) {
  auto store = Store::Open(folder / "qgpu.db");
  EXPECT_TRUE(store.ok()) << store.status();
  auto report = (*store)->ReadRun(1);
  EXPECT_TRUE(report.ok()) << report.status();
  return *report;
}

TEST(CanaryTest, AWorkerThatDoesNotCheatPasses) {
  const TestFolder folder;
  const Finished run = RunCanary(folder, "none", "dot/*");
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_EQ(run.out, "kernels 1/1\nchat not run\nadvanced not run\nmean KL not run\n");
  EXPECT_THAT(run.err, HasSubstr("\nkernels measured on base: "));
  EXPECT_THAT(run.err, HasSubstr("; native witness: native-cpu ("));
  EXPECT_THAT(run.err, Not(HasSubstr("mean KL measured on")));
  const RunReport report = StoredRun(folder);
  EXPECT_EQ(report.run.state, "finished");
  ASSERT_GE(report.items.size(), 3u);
  for (const ItemRow& item : report.items) {
    EXPECT_EQ(item.status, CaseStatus::kPass);
    ASSERT_EQ(item.attempts.size(), 1u);
    EXPECT_GT(item.attempts[0].launch->positions_checked, 0);
    EXPECT_EQ(item.attempts[0].launch->mismatches, 0);
    EXPECT_THAT(item.attempts[0].launch->native_witness, HasSubstr("native-cpu"));
  }
  EXPECT_GT(std::filesystem::file_size(folder / "report.html"), 1000u);
  EXPECT_GT(std::filesystem::file_size(folder / "report.csv"), 100u);
}

struct Caught {
  const char* cheat;
  const char* says;
};

class WrongAnswer : public ::testing::TestWithParam<Caught> {};

TEST_P(WrongAnswer, IsCaughtAndNamed) {
  const TestFolder folder;
  const Finished run = RunCanary(folder, GetParam().cheat, "dot/*");
  EXPECT_EQ(run.exit_code, kExitWrong) << run.err;
  EXPECT_THAT(run.out, HasSubstr("kernels 0/1\n"));
  EXPECT_THAT(run.err, ContainsRegex(std::string("fail dot/.* on local: ") + GetParam().says)) << run.err;
  int failed = 0;
  for (const ItemRow& item : StoredRun(folder).items) {
    if (item.status != CaseStatus::kFail) continue;
    ++failed;
    EXPECT_EQ(item.attempts.size(), 1u) << "a wrong answer is never tried again";
    EXPECT_EQ(item.attempts[0].launch->odd_one_out, "model");
  }
  EXPECT_GT(failed, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Canaries, WrongAnswer,
    ::testing::Values(Caught{"flip-word", "word 1 .byte 4.: model "},
                      Caught{"flip-register", "warp 0 lane 0 r1: model "},
                      Caught{"wrong-token", "position [0-9]+: expected "},
                      Caught{"truncate", "position [0-9]+: expected DONE, the model wrote end of trace"},
                      Caught{"echo", "position 0: expected EXEC.*, the model wrote DONE"},
                      Caught{"stale", "position [0-9]+: expected "}, Caught{"no-memory", "word [0-9]+ .byte "},
                      Caught{"endless", "position [0-9]+: expected end of trace"},
                      Caught{"text", "position 0: expected .*, the model wrote text token 17"}),
    [](const auto& info) {
      std::string name = info.param.cheat;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

TEST(CanaryTest, AWorkerThatCrashesAtEveryLaunchCostsTheCasesNotTheRun) {
  const TestFolder folder;
  const Finished run = RunCanary(folder, "crash", "dot/demo");
  EXPECT_EQ(run.exit_code, kExitInfrastructure) << run.err;
  EXPECT_THAT(run.err, HasSubstr("crash dot/demo on local: "));
  EXPECT_THAT(run.err, HasSubstr("died of signal 6"));
  const RunReport report = StoredRun(folder);
  ASSERT_EQ(report.items.size(), 1u);
  EXPECT_EQ(report.items[0].status, CaseStatus::kCrash);
  EXPECT_EQ(report.items[0].attempts.size(), 3u);
}

TEST(CanaryTest, AWorkerThatCrashesOnceIsStartedAgain) {
  const TestFolder folder;
  const Finished run = RunCanary(folder, "crash-once", "dot/demo", {}, {{"QGPU_CANARY_MARK", folder / "mark"}});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  const RunReport report = StoredRun(folder);
  EXPECT_EQ(report.items[0].status, CaseStatus::kPass);
  ASSERT_EQ(report.items[0].attempts.size(), 2u);
  EXPECT_EQ(report.items[0].attempts[0].status, CaseStatus::kCrash);
}

TEST(CanaryTest, AWorkerThatHangsIsStoppedAtTheLimit) {
  const TestFolder folder;
  const Finished run = RunCanary(folder, "hang", "dot/demo", {"--launch-limit", "1"});
  EXPECT_EQ(run.exit_code, kExitInfrastructure) << run.err;
  EXPECT_THAT(run.err, HasSubstr("timeout dot/demo on local: "));
  EXPECT_EQ(StoredRun(folder).items[0].attempts.size(), 1u);
}

}  // namespace
}  // namespace qgpu
