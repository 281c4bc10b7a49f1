// The subcommands on text, with streams to read from and print to so that a test can be their user.
#pragma once

#include <iosfwd>

#include "cli/commands.h"

namespace qgpu {

void AddTokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out);
void AddDetokenizeCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out);

}  // namespace qgpu
