#include "coordinator/run/self.h"

namespace qgpu {

NodeRow MakeNodeRow(const std::string& role, const std::string& name, const std::string& address,
                    const ProgramDescription& description) {
  NodeRow node;
  node.role = role;
  node.name = name;
  node.address = address;
  node.program = description.program;
  node.version = description.version;
  node.commit = description.commit;
  node.build_type = description.build_type;
  node.host = description.host.name;
  node.operating_system = description.host.operating_system;
  node.processor = description.host.processor;
  node.accelerator = description.host.accelerator;
  node.logical_processors = static_cast<int>(description.host.logical_processors);
  return node;
}

NodeRow CoordinatorNode() { return MakeNodeRow("coordinator", "coordinator", "", ThisProgram("qgpu-coordinator")); }

}  // namespace qgpu
