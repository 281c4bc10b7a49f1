// For tests that ask software of others, where it is installed: ptxas, nvcc.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/file.h"
#include "gtest/gtest.h"

namespace qgpu {

inline bool Installed(const std::string& tool) {
  return std::system(("command -v " + tool + " >/dev/null 2>&1").c_str()) == 0;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "qgpu-kernels-test-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What `command` printed, when it failed; "" when it ended with 0.
inline std::string Failure(const std::string& command, const TemporaryFolder& folder) {
  const std::string log = folder.File("log");
  if (std::system(fmt::format("{} >'{}' 2>&1", command, log).c_str()) == 0) return "";
  return ReadFile(log).value_or("no output") + " ";
}

}  // namespace qgpu
