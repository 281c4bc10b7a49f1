#include "tests/canary/programs.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "common/file.h"

extern char** environ;

namespace qgpu {

std::string ProgramPath(const std::string& name) { return std::string(QGPU_BINARY_DIR) + "/bin/" + name; }
std::string CanaryWorker() { return std::string(QGPU_BINARY_DIR) + "/tests/qgpu-canary-worker"; }

TestFolder::TestFolder() {
  path_ = (std::filesystem::temp_directory_path() / "qgpu-harness-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) std::abort();
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

RunningProgram::RunningProgram(const TestFolder& folder, const std::string& program,
                               const std::vector<std::string>& arguments, const Environment& environment) {
  static int count = 0;
  const std::string stem = folder / fmt::format("program{}", count++);
  out_ = stem + ".out";
  err_ = stem + ".err";
  std::vector<std::string> words = {program}, variables;
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addchdir_np(&files, folder.path().c_str());
  if (posix_spawn(&pid_, program.c_str(), &files, nullptr, argv.data(), envp.data()) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&files);
}

RunningProgram::~RunningProgram() {
  if (pid_ <= 0 || exit_code_ >= 0) return;
  kill(pid_, SIGKILL);
  Wait(10);
}

int RunningProgram::Wait(int timeout_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  while (pid_ > 0 && exit_code_ < 0 && std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return exit_code_;
}

void RunningProgram::Signal(int number) {
  if (pid_ > 0 && exit_code_ < 0) kill(pid_, number);
}

bool RunningProgram::WaitForText(const std::string& text, int timeout_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  while (std::chrono::steady_clock::now() < deadline) {
    if ((Out() + Err()).find(text) != std::string::npos) return true;
    if (exit_code_ >= 0) return false;
    Wait(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string RunningProgram::Out() const { return ReadFile(out_).value_or(""); }
std::string RunningProgram::Err() const { return ReadFile(err_).value_or(""); }

Finished RunCoordinator(const TestFolder& folder, const std::vector<std::string>& arguments,
                        const Environment& environment, int timeout_s) {
  RunningProgram program(folder, ProgramPath("qgpu-coordinator"), arguments, environment);
  const int exit_code = program.Wait(timeout_s);
  return {exit_code, program.Out(), program.Err()};
}

}  // namespace qgpu
