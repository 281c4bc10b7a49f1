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
  QGPU_ASSIGN_OR_RETURN(const PreparedLaunch prepared, PrepareLaunch(options.launch, MissingArguments::kAreAssumed));
  if (options.ptx) {
    std::fputs(prepared.ptx.c_str(), stdout);
    return kExitGood;
  }
  QGPU_ASSIGN_OR_RETURN(const LoweredKernel lowered, LowerLaunch(prepared));
  // The blocks are made for these arguments and this shape, so what was not given is said.
  for (const std::string& argument : prepared.assumed) std::printf("; assumed %s\n", argument.c_str());
  std::fputs(Disassemble(lowered.launch.program).c_str(), stdout);
  return kExitGood;
}

}  // namespace

void AddDisasmCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<DisasmOptions>();
  CLI::App* command = app.add_subcommand("disasm",
                                         "Print the machine blocks that a kernel becomes. They are made for arguments "
                                         "and shape; arguments that are not given "
                                         "are assumed to be 8 zero words for a pointer and 8 for a number");
  AddLaunchOptions(*command, options->launch);
  command->add_flag("--ptx", options->ptx, "Print the PTX instead");
  command->callback([options, &action] { action = [options] { return Disasm(*options); }; });
}

}  // namespace qgpu
