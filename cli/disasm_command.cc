#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/launch_options.h"

namespace qgpu {
namespace {

struct DisasmOptions {
  LaunchOptions launch;
  bool ptx = false;
};

absl::StatusOr<ExitCode> Disasm(const DisasmOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const PreparedLaunch prepared, PrepareLaunch(options.launch));
  const LoweredKernel& lowered = prepared.lowered;
  std::fputs((options.ptx ? lowered.ptx : Disassemble(lowered.launch.program)).c_str(), stdout);
  return kExitGood;
}

}  // namespace

void AddDisasmCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<DisasmOptions>();
  CLI::App* command = app.add_subcommand("disasm", "Print the machine blocks that a kernel becomes");
  AddLaunchOptions(*command, options->launch);
  command->add_flag("--ptx", options->ptx, "Print the PTX instead");
  command->callback([options, &action] { action = [options] { return Disasm(*options); }; });
}

}  // namespace qgpu
