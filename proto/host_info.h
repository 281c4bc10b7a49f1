// What a program says about itself and the machine it runs on.
#pragma once

#include <string>

namespace qgpu {

struct HostInfo {
  std::string name;              // host name
  std::string operating_system;  // "Linux 6.1.0 x86_64"
  std::string processor;         // model name, or the architecture where the system does not tell
  unsigned logical_processors = 1;
  std::string accelerator;  // empty: none
  bool operator==(const HostInfo&) const = default;
};

// Of a program of the project, wherever it runs.
struct ProgramDescription {
  std::string program, version, commit, build_type;
  HostInfo host;
};

HostInfo ThisHost();
ProgramDescription ThisProgram(const std::string& name);

}  // namespace qgpu
