// The coordinator's subcommands. Each returns the program's exit code and says what went wrong on stderr.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/cli/options.h"

namespace qgpu {

int RunSuiteCommand(const RunSuiteOptions& options, const std::string& command_line);

int ListRunsCommand(const std::string& database);
// `run_id` 0: the newest.
int ShowRunCommand(const std::string& database, int64_t run_id);
// To `output`, or to stdout where it is empty.
int ReportCommand(const std::string& database, int64_t run_id, const std::string& format, const std::string& output);

}  // namespace qgpu
