// `qgpu`: everything on one machine without a service.
#include <cstdio>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/text_commands.h"
#include "common/command_line.h"
#include "common/passive_waiting.h"
#include "common/version.h"
#ifdef QGPU_HAS_TORCH
#include "model/forward/torch/torch_executor.h"
#endif

namespace qgpu {
namespace {

absl::StatusOr<std::unique_ptr<TextModel>> LoadModel([[maybe_unused]] const std::string& directory,
                                                     [[maybe_unused]] DataType type,
                                                     [[maybe_unused]] const std::string& device) {
#ifdef QGPU_HAS_TORCH
  return LoadTextModel(directory, type, device);
#else
  return absl::InvalidArgumentError("generate: this build has no libtorch; configure with -DQGPU_TORCH=ON");
#endif
}

#ifdef QGPU_HAS_TORCH
bool UsesTorch(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    const std::string& name = command->get_name();
    if (name == "generate" || name == "logits" || name == "drift") return true;
    const CLI::Option* executor = command->get_option_no_throw("--executor");
    if (executor != nullptr && executor->count() > 0 && executor->as<std::string>() == "torch") return true;
  }
  return false;
}
#endif

int Main(int argc, char** argv) {
  CLI::App app("Run CUDA kernels inside a language model's weights.", "qgpu");
  app.set_version_flag("--version", [] { return VersionText("qgpu", DefaultCircuitPath()); });
  app.require_subcommand(1);
  Action action;
  AddRunCommand(app, action);
  AddTraceCommand(app, action);
  AddDisasmCommand(app, action);
  AddBuildCommand(app, action);
  AddCorruptCommand(app, action);
  AddExportCommand(app, action);
  AddInspectCommand(app, action);
  AddLogitsCommand(app, action);
  AddDriftCommand(app, action);
  AddTokenizeCommand(app, action, std::cin, std::cout);
  AddDetokenizeCommand(app, action, std::cin, std::cout);
  AddGenerateCommand(app, action, std::cin, std::cout, LoadModel);
  AddDoctorCommand(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOfParse("qgpu", app, error);
  }
#ifdef QGPU_HAS_TORCH
  if (UsesTorch(app)) RestartWithPassiveWaiting(argv);
#endif
  const absl::StatusOr<ExitCode> end = action();
  if (end.ok()) return *end;
  const std::string message(end.status().message());
  std::fprintf(stderr, "qgpu: %s\n", message.c_str());
  return ExitCodeFor(end.status());
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) { return qgpu::Main(argc, argv); }
