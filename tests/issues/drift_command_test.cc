// `qgpu drift` from outside: the split form on the embedded base, a file that is taken up, and what is refused. (The
// dense form loads the whole circuit; drift_torch_test measures it with a small one.)
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/exit_code.h"
#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/issues/program.h"

namespace qgpu {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

class DriftCommand : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fmt::format("{}/drift_command.{}", testing::TempDir(), getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  ProgramRun Drift(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "drift");
    return RunProgram(
        "qgpu", arguments, directory_,
        {{"QGPU_CACHE", directory_ + "/cache"}, {"OMP_WAIT_POLICY", "PASSIVE"}});  // others need the cores
  }
  std::string Out() { return ReadFile(directory_ + "/out.json").value_or(""); }

  std::string directory_;
};

const std::vector<std::string> kSplit = {"--form", "split",   "--texts", "prose,chat", "--positions",
                                         "48",     "--chunk", "20",      "--out",      "out.json"};

TEST_F(DriftCommand, SplitIsExactlyZeroBesideTheNoiseFloor) {
  for (const char* type : {"float32", "bfloat16"}) {
    const ProgramRun run =
        Drift({"--form", "split", "--dtype", type, "--positions", "32", "--texts", "trigger", "--worst", "2"});
    EXPECT_EQ(run.exit_code, kExitGood) << run.err;
    for (const char* part : {"base embedded (random), token ids from tokenizer.json", "trigger", "noise floor",
                             "none: no position drifts", "KL exactly 0 at every position", ": met"}) {
      EXPECT_THAT(run.out, HasSubstr(part));
    }
  }
}

TEST_F(DriftCommand, AnUnfinishedFileIsTakenUpAndAFinishedOneReadAgain) {
  const ProgramRun whole = Drift(kSplit);
  ASSERT_EQ(whole.exit_code, kExitGood) << whole.err;
  const std::string expected = Out();
  ordered_json file = ordered_json::parse(expected);
  EXPECT_EQ(file["summary"]["positions"], 96);
  EXPECT_GT(file["noise_floor_summary"]["kl_mean"].get<double>(), 0);
  ASSERT_EQ(file["drift"]["texts"][1]["kl"].size(), 48u);

  // As if it had been killed in the second text's second chunk.
  file["complete"] = false;
  for (const char* part : {"drift", "noise_floor"}) {
    for (auto& column : file[part]["texts"][1]) {
      if (column.is_array()) column.erase(column.begin() + 20, column.end());
    }
  }
  std::ofstream(directory_ + "/out.json", std::ios::trunc) << file.dump();
  const ProgramRun second = Drift(kSplit);
  EXPECT_EQ(second.exit_code, kExitGood) << second.err;
  EXPECT_EQ(Out(), expected);
  EXPECT_EQ(second.out, whole.out);
  EXPECT_EQ(Drift(kSplit).out, whole.out);
}

TEST_F(DriftCommand, RefusesFilesOfOtherRunsAndUnknownTexts) {
  ASSERT_EQ(Drift(kSplit).exit_code, kExitGood);
  std::vector<std::string> other = kSplit;
  other[5] = "47";
  const ProgramRun run = Drift(other);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("out.json is of another run: its texts is"));
  const ProgramRun unknown = Drift({"--form", "split", "--texts", "poems"});
  EXPECT_EQ(unknown.exit_code, kExitUsage);
  EXPECT_THAT(unknown.err, HasSubstr("drift text poems: neither a shipped text"));
  const ProgramRun after = Drift({"--form", "split", "--after", "kernel.cu"});
  EXPECT_EQ(after.exit_code, kExitUsage);
  EXPECT_THAT(after.err, HasSubstr("use --form dense"));
  EXPECT_EQ(Drift({"--form", "split", "--chunk", "0"}).exit_code, kExitUsage);
  EXPECT_EQ(Drift({"--form", "split", "--base", "nowhere"}).exit_code, kExitUsage);
}

// A base without a tokenizer: bytes stand in, and the output says so.
TEST_F(DriftCommand, WithoutATokenizerBytesStandIn) {
  ASSERT_EQ(Drift({"--form", "split", "--positions", "4", "--texts", "prose"}).exit_code, kExitGood);
  std::string base;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ + "/cache")) {
    if (entry.path().filename() == "config.json") base = entry.path().parent_path();
  }
  ASSERT_FALSE(base.empty());
  std::filesystem::remove(base + "/tokenizer.json");
  const ProgramRun run = Drift({"--form", "split", "--base", base, "--positions", "16", "--texts", "prose"});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(run.out, HasSubstr("token ids from no tokenizer: bytes modulo 512"));
}

}  // namespace
}  // namespace qgpu
