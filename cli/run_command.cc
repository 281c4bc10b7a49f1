// `qgpu run`: one launch of anyone's kernel, in the model's weights unless told otherwise.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/engines.h"

namespace qgpu {
namespace {

struct RunOptions {
  LaunchOptions launch;
  EngineOptions engine;
  bool json = false;
  std::string output_bytes;
};

absl::StatusOr<ExitCode> Run(const RunOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const PreparedLaunch launch, PrepareLaunch(options.launch));
  QGPU_ASSIGN_OR_RETURN(const LaunchResult result, RunOnEngine(launch, options.engine));
  if (options.json) {
    std::fputs(ResultToJson(launch, result).c_str(), stdout);
  } else {
    std::fputs(FormatResult(launch, result).c_str(), stdout);
  }
  QGPU_RETURN_IF_ERROR(ResultStatus(result));
  if (!options.output_bytes.empty()) QGPU_RETURN_IF_ERROR(WriteOutputs(options.output_bytes, launch, result));
  return kExitGood;
}

}  // namespace

void AddRunCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a CUDA kernel in the model's weights");
  AddLaunchOptions(*command, options->launch);
  AddEngineOptions(*command, options->engine);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--output-bytes", options->output_bytes,
                      "Write the outputs' bytes, as on the device, to a file, or NAME.bin each into a folder");
  command->callback([options, &action] { action = [options] { return Run(*options); }; });
}

}  // namespace qgpu
