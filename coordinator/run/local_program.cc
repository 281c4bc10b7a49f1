#include "coordinator/run/local_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/exit_code.h"
#include "common/spawn.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using Clock = std::chrono::steady_clock;

void CloseFd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

absl::Status LocalProgram::Spawn(const std::string& path, const std::vector<std::string>& arguments) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return absl::UnavailableError("cannot make a pipe");
  }
  stdin_ = in[1];
  stdout_ = out[0];
  std::vector<std::string> words = {"--listen", "127.0.0.1:0", "--exit-with-stdin"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  // What a worker would otherwise start itself again for (common/passive_waiting.h).
  std::vector<std::string> settings;
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) settings.push_back("OMP_WAIT_POLICY=PASSIVE");
  const auto child = SpawnProgram(path, words, settings, {.in = in[0], .out = out[1]});
  close(in[0]);
  close(out[1]);
  if (!child.ok()) return absl::FailedPreconditionError(child.status().message());
  pid_ = *child;
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalProgram::ReadReadyLine(int64_t ready_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(ready_ms);
  std::string line;
  while (line.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd watched = {stdout_, POLLIN, 0};
    const int ready = left > 0 ? poll(&watched, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return absl::UnavailableError(fmt::format("{} does not listen after {} ms", path_, ready_ms));
    char buffer[512];
    const ssize_t got = read(stdout_, buffer, sizeof(buffer));
    if (got <= 0) return StartFailure("ended before it listened");
    line.append(buffer, static_cast<size_t>(got));
    if (line.size() > 4096) return absl::UnavailableError(path_ + " does not say where it listens");
  }
  return line.substr(0, line.find('\n'));
}

absl::Status LocalProgram::StartFailure(const std::string& what) {
  const std::string ended = Ended(5000);
  const std::string message = fmt::format("{} {}: {}", path_, what, ended.empty() ? "it still runs" : ended);
  if (is_reaped_ && WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == kExitUsage) {
    return absl::FailedPreconditionError(message + "; its message is above");
  }
  return absl::UnavailableError(message);
}

absl::StatusOr<std::unique_ptr<LocalProgram>> LocalProgram::Start(const std::string& path,
                                                                  const std::vector<std::string>& arguments,
                                                                  int64_t ready_ms) {
  if (access(path.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(fmt::format("no program {}: {}", path, std::strerror(errno)));
  }
  std::unique_ptr<LocalProgram> program(new LocalProgram);
  program->path_ = path;
  QGPU_RETURN_IF_ERROR(program->Spawn(path, arguments));
  QGPU_ASSIGN_OR_RETURN(const std::string line, program->ReadReadyLine(ready_ms));
  const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!ready.is_object() || !ready.contains("address") || !ready["address"].is_string()) {
    return absl::UnavailableError(path + " does not say where it listens");
  }
  QGPU_ASSIGN_OR_RETURN(program->address_, ParseAddress(ready["address"].get<std::string>()));
  return program;
}

std::string LocalProgram::Ended(int64_t wait_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(wait_ms);
  while (pid_ > 0 && !is_reaped_) {
    const pid_t got = waitpid(pid_, &wait_status_, WNOHANG);
    if (got == pid_ || (got < 0 && errno == ECHILD)) {
      is_reaped_ = true;
    } else if (Clock::now() >= deadline) {
      return "";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  if (WIFSIGNALED(wait_status_)) {
    return fmt::format("died of signal {} ({})", WTERMSIG(wait_status_), strsignal(WTERMSIG(wait_status_)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(wait_status_));
}

void LocalProgram::Stop() {
  CloseFd(stdin_);
  CloseFd(stdout_);
  if (pid_ <= 0 || is_reaped_ || !Ended(3000).empty()) return;
  kill(pid_, SIGKILL);
  Ended(60'000);
}

LocalProgram::~LocalProgram() { Stop(); }

}  // namespace qgpu
