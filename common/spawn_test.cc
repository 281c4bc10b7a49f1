#include "common/spawn.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

// What a shell prints that runs `script`, with "some input" to read where `has_input`.
std::string Print(const std::string& script, bool has_input, pid_t* id = nullptr) {
  int in[2], out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(write(in[1], "some input\n", 11), 11);
  close(in[1]);
  const auto child =
      SpawnProgram("/bin/sh", {"-c", script}, {"QGPU_SPAWN_A=1", "QGPU_SPAWN_B=2"}, {has_input ? in[0] : -1, out[1]});
  close(in[0]);
  close(out[1]);
  EXPECT_TRUE(child.ok()) << child.status();
  std::string text;
  char buffer[256];
  for (ssize_t got; (got = read(out[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(out[0]);
  if (!child.ok()) return text;
  int status = -1;
  EXPECT_EQ(waitpid(*child, &status, 0), *child);
  EXPECT_EQ(status, 0);
  if (id != nullptr) *id = *child;
  return text;
}

TEST(SpawnProgram, HasItsFilesAndSettings) {
  setenv("QGPU_SPAWN_B", "old", 1);
  setenv("QGPU_SPAWN_C", "3", 1);
  EXPECT_EQ(Print("read line; echo \"$line $QGPU_SPAWN_A$QGPU_SPAWN_B$QGPU_SPAWN_C\"", true), "some input 123\n");
  EXPECT_EQ(Print("read line || echo nothing", false), "nothing\n");
}

TEST(SpawnProgram, SharesNothingElse) {
  const int open_here = dup(STDERR_FILENO);
  ASSERT_GT(open_here, STDERR_FILENO);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_t id = 0;
  const std::string text =
      Print(fmt::format(
                "test -e /proc/self/fd/{} && echo open; grep SigBlk /proc/self/status; cut -d ' ' -f 5 /proc/self/stat",
                open_here),
            true, &id);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(open_here);
  EXPECT_EQ(text, fmt::format("SigBlk:\t0000000000000000\n{}\n", id)) << "descriptors, signals, process group";
}

TEST(SpawnProgram, SaysWhatCannotBeStarted) {
  const auto child = SpawnProgram("/no/such/program", {}, {}, {});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(child.status().message()), HasSubstr("cannot start /no/such/program: No such file"));
}

}  // namespace
}  // namespace qgpu
