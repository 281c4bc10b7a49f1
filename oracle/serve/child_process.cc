#include "oracle/serve/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "common/spawn.h"

namespace qgpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxMessageBytes = 32 << 10;
// A process that waits for its device inside the kernel dies only when that wait ends. It is then left behind.
constexpr auto kDeathTime = std::chrono::seconds(10);

// Takes what there is to read within 10 ms; false at the end of the pipe.
bool ReadSome(int pipe, std::string& messages) {
  pollfd watched = {pipe, POLLIN, 0};
  if (poll(&watched, 1, 10) <= 0) return true;
  char buffer[4096];
  const ssize_t got = read(pipe, buffer, sizeof(buffer));
  if (got > 0) messages.append(buffer, std::min<size_t>(static_cast<size_t>(got), kMaxMessageBytes - messages.size()));
  return got > 0 || (got < 0 && errno == EINTR);
}

// Whether it has ended, though it is still there to be asked how; waits until `deadline`.
bool HasEnded(pid_t child, Clock::time_point deadline) {
  while (true) {
    siginfo_t info = {};
    const int got = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    if ((got == 0 && info.si_pid == child) || (got < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    usleep(1000);
  }
}

}  // namespace

absl::StatusOr<ChildOutcome> RunChild(const std::string& program, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& settings, int wall_ms) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  const auto deadline = Clock::now() + std::chrono::milliseconds(wall_ms);
  const auto started = SpawnProgram(program, arguments, settings, {.in = -1, .out = ends[1], .err = ends[1]});
  close(ends[1]);
  if (!started.ok()) {
    close(ends[0]);
    return started.status();
  }
  const pid_t child = *started;
  ChildOutcome outcome;
  int status = 0;
  bool is_open = true, has_ended = false;
  while (!has_ended && Clock::now() < deadline) {
    if (is_open) is_open = ReadSome(ends[0], outcome.messages);
    has_ended = HasEnded(child, is_open ? Clock::now() : deadline);
  }
  // What the child started may still hold the pipe, so its end is not waited for.
  for (pollfd left = {ends[0], POLLIN, 0}; is_open && poll(&left, 1, 0) > 0;) {
    is_open = ReadSome(ends[0], outcome.messages);
  }
  kill(-child, SIGKILL);
  if (has_ended || HasEnded(child, Clock::now() + kDeathTime)) waitpid(child, &status, 0);
  if (!has_ended) {
    outcome.end = ChildOutcome::End::kWallTime;
  } else if (WIFSIGNALED(status)) {
    outcome.end = ChildOutcome::End::kSignal;
    outcome.code = WTERMSIG(status);
  } else {
    outcome.code = WEXITSTATUS(status);
  }
  close(ends[0]);
  return outcome;
}

void EndWithParent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

}  // namespace qgpu
