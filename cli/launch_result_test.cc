#include "cli/launch_result.h"

#include <filesystem>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using testing::HasSubstr;

// f(int* a, int n, int* out): a at word 1, out at word 4.
PreparedLaunch MakeLaunch() {
  PreparedLaunch launch;
  launch.kernel = "f";
  launch.spec.arguments.resize(3);
  launch.spec.arguments[0] = {.name = "a", .kind = KernelArgument::Kind::kBuffer, .words = {1, 2, 3}};
  launch.spec.arguments[1] = {.name = "n", .scalar = 3};
  launch.spec.arguments[2] = {.name = "out", .kind = KernelArgument::Kind::kBuffer, .words = {0, 0}, .is_output = true};
  launch.arena = LayOutArena(launch.spec.arguments);
  return launch;
}

LaunchResult MakeResult() {
  LaunchResult result;
  result.engine = "model (sparse split float32)";
  result.circuit = "0123456789abcdef";
  result.memory = {0, 1, 2, 3, 32, 0xffffffffu};
  result.tokens = {Token::Exec(0, 1), Token::Exec(1, 1), Token::Done()};
  result.passes = 2;
  result.check = CheckSummary{3, 0, true, ""};
  return result;
}

TEST(FormatResult, ShowsDeclaredOutputs) {
  EXPECT_EQ(FormatResult(MakeLaunch(), MakeResult()),
            "out = 32 -1\ntokens 3\npasses 2\nchecked 3 positions, 0 mismatches\n");
}

TEST(FormatResult, ShowsEveryBufferWhereNoneIsDeclared) {
  PreparedLaunch launch = MakeLaunch();
  launch.spec.arguments[2].is_output = false;
  LaunchResult result = MakeResult();
  result.tokens.clear();
  result.check.reset();
  EXPECT_EQ(FormatResult(launch, result), "a = 1 2 3\nout = 32 -1\n");
}

TEST(FormatResult, CountsWhateverTheEnd) {
  const std::string counts = "tokens 3\npasses 2\nchecked 3 positions, 0 mismatches\n";
  for (const LaunchEnd end : {LaunchEnd::kTrap, LaunchEnd::kBudget}) {
    LaunchResult result = MakeResult();
    result.end = end;
    EXPECT_EQ(FormatResult(MakeLaunch(), result), counts) << "no outputs: they may be half written";
  }
  LaunchResult result = MakeResult();
  result.fault = absl::DataLossError("position 2: text");
  EXPECT_EQ(FormatResult(MakeLaunch(), result), counts);
}

TEST(FormatResult, ShowsRawOutputsAsBytes) {
  PreparedLaunch launch = MakeLaunch();
  launch.spec.arguments[2] = KernelArgument::RawBuffer("out", {0, 0, 0, 0, 0, 0, 0});
  launch.spec.arguments[2].is_output = true;
  EXPECT_THAT(FormatResult(launch, MakeResult()), testing::StartsWith("out = bytes 20000000ffffff\n"));
  const auto json = nlohmann::json::parse(ResultToJson(launch, MakeResult()));
  EXPECT_EQ(json["outputs"]["out"], "20000000ffffff");
}

TEST(WriteOutputs, AFileOrAFolder) {
  const std::string folder = testing::TempDir() + "/launch_result_test";
  std::filesystem::create_directories(folder);
  PreparedLaunch launch = MakeLaunch();
  ASSERT_TRUE(WriteOutputs(folder + "/bytes", launch, MakeResult()).ok());
  EXPECT_EQ(ReadFile(folder + "/bytes").value(), std::string("\x20\0\0\0\xff\xff\xff\xff", 8));
  launch.spec.arguments[2].is_output = false;
  EXPECT_THAT(std::string(WriteOutputs(folder + "/bytes", launch, MakeResult()).message()),
              HasSubstr("the launch has 2 outputs; name a folder that exists"));
  ASSERT_TRUE(WriteOutputs(folder, launch, MakeResult()).ok());
  EXPECT_EQ(ReadFile(folder + "/a.bin").value(), std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  EXPECT_EQ(ReadFile(folder + "/out.bin")->size(), 8u);
}

TEST(ResultToJson, SaysTheSame) {
  const auto json = nlohmann::json::parse(ResultToJson(MakeLaunch(), MakeResult()));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["kernel"], "f");
  EXPECT_EQ(json["end"], "done");
  EXPECT_EQ(json["circuit"], "0123456789abcdef");
  EXPECT_EQ(json["outputs"]["out"], nlohmann::json({32, -1}));
  EXPECT_FALSE(json["outputs"].contains("a"));
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(json["passes"], 2);
  EXPECT_EQ(json["positions_checked"], 3);
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_FALSE(json.contains("message"));
}

TEST(ResultToJson, IsValidWhateverTheNamesHold) {
  LaunchResult result = MakeResult();
  result.end = LaunchEnd::kTrap;
  result.message = "misaligned address, k\xff.cu:4";
  EXPECT_EQ(nlohmann::json::parse(ResultToJson(MakeLaunch(), result))["message"], "misaligned address, k\ufffd.cu:4");
}

TEST(ResultStatus, WrongAnswersAreErrors) {
  LaunchResult result = MakeResult();
  EXPECT_TRUE(ResultStatus(result).ok());
  result.end = LaunchEnd::kTrap;
  result.message = "misaligned address";
  EXPECT_EQ(ResultStatus(result), absl::AbortedError("misaligned address"));
  result.check = CheckSummary{3, 1, false, "position 1: EXEC expected"};
  EXPECT_EQ(ResultStatus(result).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ResultStatus(result).message()), HasSubstr("position 1: EXEC expected"));
  result.check.reset();
  result.fault = absl::DataLossError("position 2: text");
  EXPECT_EQ(ResultStatus(result).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace qgpu
