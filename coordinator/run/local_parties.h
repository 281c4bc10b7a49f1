// A worker and an oracle on this machine, as children. One that dies is started again for the next call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/run/parties.h"

namespace qgpu {

struct LocalCommand {
  std::string name;     // as reports call it
  std::string program;  // path
  std::vector<std::string> arguments;
};

// Started when this returns. Errors as LocalProgram::Start.
absl::StatusOr<std::unique_ptr<WorkerClient>> StartLocalWorker(const LocalCommand& command);
absl::StatusOr<std::unique_ptr<OracleClient>> StartLocalOracle(const LocalCommand& command);

}  // namespace qgpu
