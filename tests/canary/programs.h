// The programs of the service, run as a person would.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace qgpu {

std::string ProgramPath(const std::string& name);  // build/bin/NAME
std::string CanaryWorker();                        // build/tests/qgpu-canary-worker

// A fresh folder that is removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// A program that runs in `folder`, with its output in files there. It is killed at the end if it still runs.
class RunningProgram {
 public:
  RunningProgram(const TestFolder& folder, const std::string& program, const std::vector<std::string>& arguments,
                 const Environment& environment = {});
  ~RunningProgram();
  // Exit code, 128 + signal where one ended it, -1 if it still runs after the time.
  int Wait(int timeout_s = 120);
  void Signal(int number);
  // Waits until stdout or stderr contains `text`; false after the time.
  bool WaitForText(const std::string& text, int timeout_s = 60);
  std::string Out() const;
  std::string Err() const;
  pid_t pid() const { return pid_; }

 private:
  std::string out_, err_;
  pid_t pid_ = -1;
  int exit_code_ = -1;
};

struct Finished {
  int exit_code = -1;
  std::string out, err;
};
Finished RunCoordinator(const TestFolder& folder, const std::vector<std::string>& arguments,
                        const Environment& environment = {}, int timeout_s = 120);

}  // namespace qgpu
