// The coordinator as one of the programs that take part in a run.
#pragma once

#include "proto/host_info.h"
#include "reports/rows.h"

namespace qgpu {

// A node row with the program and machine of `description`.
NodeRow MakeNodeRow(const std::string& role, const std::string& name, const std::string& address,
                    const ProgramDescription& description);

NodeRow CoordinatorNode();

}  // namespace qgpu
