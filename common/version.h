// What `--version` says on every program, and where a program finds what was built beside it.
#pragma once

#include <string>

namespace qgpu {

// "0.1.0"
std::string ProjectVersion();
// The git commit the build tree was made from, 12 digits, with "-dirty" when tracked files had changes; "unknown" where
// the sources are no git checkout.
std::string BuildCommit();
// "Release", "Debug", ...
std::string BuildType();

// Folder of the running program's file, without a trailing slash; "." where /proc does not tell.
std::string ExecutableDirectory();

// The circuit a program uses unless told otherwise: $QGPU_CIRCUIT if set and not empty, else
// ../share/qgpu/circuit.bin seen from the program. The file may be missing.
std::string DefaultCircuitPath();

// The circuit's hash: the first 16 digits of the SHA-256 of the circuit file, whatever is in it; "none" if it cannot be
// read.
std::string CircuitFileHash(const std::string& path);

// "qgpu 0.1.0, commit 0123456789ab, Release build, circuit 0123456789abcdef (/path/circuit.bin)". An empty path leaves
// the circuit out, for programs that have none.
std::string VersionText(const std::string& program, const std::string& circuit_path);

}  // namespace qgpu
