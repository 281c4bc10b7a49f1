// Errors of a command line, the same on every program.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/exit_code.h"

namespace qgpu {

// What is wrong with a command line that `app` could not parse, if it is a word that no command, option or positional
// argument takes: "run: unknown option "--blok"; did you mean "--block"?". Empty otherwise.
std::string UnknownWord(const std::string& program, const CLI::App& app);

// Ends `program` after `app.parse` threw: prints help or the version where that was asked for, and otherwise what is
// wrong on stderr. An unknown word comes first: whatever else is missing may be what it was meant to be.
ExitCode EndOfParse(const std::string& program, const CLI::App& app, const CLI::ParseError& error);

}  // namespace qgpu
