// The subcommands of `qgpu`. Each Add function declares one on the command line; parsing then leaves what is to be done
// in `action`. Actions print data on stdout and return how the program ends; an error is printed by main.
#pragma once

#include <functional>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/exit_code.h"
#include "common/status.h"

namespace qgpu {

using Action = std::function<absl::StatusOr<ExitCode>()>;

void AddRunCommand(CLI::App& app, Action& action);      // run_command.cc
void AddTraceCommand(CLI::App& app, Action& action);    // trace_command.cc
void AddDisasmCommand(CLI::App& app, Action& action);   // disasm_command.cc
void AddBuildCommand(CLI::App& app, Action& action);    // build_command.cc
void AddCorruptCommand(CLI::App& app, Action& action);  // corrupt_command.cc
void AddExportCommand(CLI::App& app, Action& action);   // export_command.cc
void AddInspectCommand(CLI::App& app, Action& action);  // inspect_command.cc
void AddLogitsCommand(CLI::App& app, Action& action);   // logits_command.cc
void AddDriftCommand(CLI::App& app, Action& action);    // drift_command.cc
void AddDoctorCommand(CLI::App& app, Action& action);   // doctor_command.cc

}  // namespace qgpu
