// The coordinator's subcommands. Each returns the program's exit code and says what went wrong on stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/cli/options.h"

namespace qgpu {

// `arguments` are those behind "run-suite": what `options` was parsed from, and what the run keeps.
int RunSuiteCommand(const RunSuiteOptions& options, const std::vector<std::string>& arguments);

int ListRunsCommand(const std::string& database);
// `run_id` 0: the newest.
int ShowRunCommand(const std::string& database, int64_t run_id);
// To `output`, or to stdout where it is empty.
int ReportCommand(const std::string& database, int64_t run_id, const std::string& format, const std::string& output);

}  // namespace qgpu
