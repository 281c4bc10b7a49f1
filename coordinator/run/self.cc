#include "coordinator/run/self.h"

#include "reports/printable.h"

namespace qgpu {

NodeRow MakeNodeRow(const std::string& role, const std::string& name, const std::string& address,
                    const ProgramDescription& description) {
  NodeRow node;
  node.role = role;
  node.name = name;
  node.address = address;
  node.program = Printable(description.program);
  node.version = Printable(description.version);
  node.commit = Printable(description.commit);
  node.build_type = Printable(description.build_type);
  node.host = Printable(description.host.name);
  node.operating_system = Printable(description.host.operating_system);
  node.processor = Printable(description.host.processor);
  node.accelerator = Printable(description.host.accelerator);
  node.logical_processors = static_cast<int>(description.host.logical_processors);
  return node;
}

NodeRow CoordinatorNode() { return MakeNodeRow("coordinator", "coordinator", "", ThisProgram("qgpu-coordinator")); }

}  // namespace qgpu
