#include "oracle/serve/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <fstream>

namespace qgpu {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using End = ChildOutcome::End;

ChildOutcome Shell(const std::string& script, int wall_ms = 10'000, const std::vector<std::string>& settings = {}) {
  const auto outcome = RunChild("/bin/sh", {"-c", script}, settings, wall_ms);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.value_or(ChildOutcome{});
}

bool NoChildrenLeft() { return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

// Not counting what is dead and waits for somebody to take note.
bool IsRunning(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string number, name, state;
  return file >> number >> name >> state && state != "Z";
}

TEST(RunChild, ExitCodesAndMessages) {
  const ChildOutcome outcome = Shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.messages, "out\nerr\n");
  EXPECT_TRUE(NoChildrenLeft());
}

TEST(RunChild, Signals) {
  const ChildOutcome outcome = Shell("kill -SEGV $$");
  EXPECT_EQ(outcome.end, End::kSignal);
  EXPECT_EQ(outcome.code, SIGSEGV);
}

TEST(RunChild, WhatCannotBeStarted) {
  EXPECT_EQ(RunChild("/no/such/program", {}, {}, 1000).status().code(), absl::StatusCode::kUnavailable);
}

TEST(RunChild, AHangingChildIsKilledWithWhatItStarted) {
  const auto start = std::chrono::steady_clock::now();
  // The first ignores what can be ignored; what it started tells its number and outlives it otherwise.
  const ChildOutcome outcome = Shell("trap '' TERM INT HUP; sleep 1000 & echo $!; sleep 1000", 300);
  EXPECT_EQ(outcome.end, End::kWallTime);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_TRUE(NoChildrenLeft());
  const pid_t started = std::atoi(outcome.messages.c_str());
  ASSERT_GT(started, 0);
  for (int i = 0; i < 100 && IsRunning(started); ++i) usleep(10'000);
  EXPECT_FALSE(IsRunning(started));
}

TEST(RunChild, DoesNotWaitForWhatItsChildLeavesBehind) {
  const auto start = std::chrono::steady_clock::now();
  const ChildOutcome outcome = Shell("sleep 1000 & echo done");
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.messages, "done\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST(RunChild, AClosedPipeIsNotTheEnd) {
  const ChildOutcome outcome = Shell("exec >&- 2>&-; sleep 0.2; exit 3");
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.code, 3);
}

TEST(RunChild, MessagesAreCutOff) {
  const ChildOutcome outcome = Shell("yes | head -c 1000000; exit 1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.messages.size(), 32u << 10);
}

TEST(RunChild, SettingsReplaceTheEnvironmentsAndTheRestIsKept) {
  setenv("QGPU_CHILD_A", "old", 1);
  setenv("QGPU_CHILD_B", "kept", 1);
  EXPECT_EQ(Shell("echo $QGPU_CHILD_A $QGPU_CHILD_B", 10'000, {"QGPU_CHILD_A=new"}).messages, "new kept\n");
  EXPECT_EQ(Shell("cat; ls /proc/self/fd | wc -w").messages, "4\n");  // 0 to 2, and the folder that ls reads
}

}  // namespace
}  // namespace qgpu
