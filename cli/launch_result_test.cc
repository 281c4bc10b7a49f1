#include "cli/launch_result.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using testing::HasSubstr;

// f(int* a, int n, int* out): a at word 1, out at word 4.
PreparedLaunch MakeLaunch() {
  PreparedLaunch launch;
  launch.lowered.kernel = "f";
  launch.lowered.arguments.resize(3);
  launch.lowered.arguments[0] = {"a", KernelArgument::Kind::kBuffer, {1, 2, 3}, false, 0};
  launch.lowered.arguments[1] = {"n", KernelArgument::Kind::kScalar, {}, false, 3};
  launch.lowered.arguments[2] = {"out", KernelArgument::Kind::kBuffer, {0, 0}, true, 0};
  launch.lowered.byte_address = {4, 0, 16};
  launch.lowered.arena_words = 6;
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
  launch.lowered.arguments[2].is_output = false;
  LaunchResult result = MakeResult();
  result.tokens.clear();
  result.check.reset();
  EXPECT_EQ(FormatResult(launch, result), "a = 1 2 3\nout = 32 -1\n");
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
