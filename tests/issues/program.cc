#include "tests/issues/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/file.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

void RunChild(const std::string& path, const std::vector<std::string>& arguments, const std::string& directory,
              const std::vector<std::pair<std::string, std::string>>& environment, const std::string& out,
              const std::string& err, int timeout_s) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int null_in = open("/dev/null", O_RDONLY);
  const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (chdir(directory.c_str()) != 0) _exit(127);
  dup2(null_in, 0);
  dup2(out_fd, 1);
  dup2(err_fd, 2);
  setpgid(0, 0);
  alarm(static_cast<unsigned>(timeout_s));  // survives exec; SIGALRM ends a program that does not expect it
  execv(path.c_str(), argv.data());
  _exit(127);
}

}  // namespace

ProgramRun RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                      const std::string& directory, const std::vector<std::pair<std::string, std::string>>& environment,
                      int timeout_s) {
  static int runs = 0;
  const std::string scratch = fmt::format("{}/qgpu_program.{}.{}", testing::TempDir(), getpid(), runs++);
  const std::string path = std::string(QGPU_BINARY_DIR) + "/bin/" + program;
  const std::string out = scratch + ".out", err = scratch + ".err";
  const pid_t child = fork();
  if (child == 0) RunChild(path, arguments, directory, environment, out, err, timeout_s);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-child, SIGKILL);  // what it left running
  ProgramRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.out = ReadFile(out).value_or("");
  run.err = ReadFile(err).value_or("");
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return run;
}

std::string BuiltCircuit() { return std::string(QGPU_BINARY_DIR) + "/share/qgpu/circuit.bin"; }

}  // namespace qgpu
