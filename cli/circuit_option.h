// The circuit a subcommand works on: --circuit FILE, else QGPU_CIRCUIT, else the one built beside the program.
#pragma once

#include <string>

#include "CLI/App.hpp"
#include "common/status.h"
#include "model/weights/circuit.h"

namespace qgpu {

// Declares --circuit; `path` gets the default now.
void AddCircuitOption(CLI::App& command, std::string& path);

// Reads and checks the file, or circuit.bin in that folder. Errors as ReadFile and ParseCircuit, with the path in front
// and, where there is no such file, how to make one.
absl::StatusOr<Circuit> LoadCircuit(const std::string& option);

}  // namespace qgpu
