#include "proto/host_info.h"

#include <sys/utsname.h>

#include <fstream>
#include <thread>

#include "common/version.h"
#include "fmt/format.h"

namespace qgpu {

HostInfo ThisHost() {
  HostInfo info;
  utsname names;
  if (uname(&names) == 0) {
    info.name = names.nodename;
    info.operating_system = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
    info.processor = names.machine;
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      info.processor = line.substr(colon + 2);
      break;
    }
  }
  info.logical_processors = std::max(1u, std::thread::hardware_concurrency());
  return info;
}

ProgramDescription ThisProgram(const std::string& name) {
  return {name, ProjectVersion(), BuildCommit(), BuildType(), ThisHost()};
}

}  // namespace qgpu
