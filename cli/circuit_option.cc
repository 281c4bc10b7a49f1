#include "cli/circuit_option.h"

#include <filesystem>

#include "common/file.h"
#include "common/version.h"

namespace qgpu {

void AddCircuitOption(CLI::App& command, std::string& path) {
  path = DefaultCircuitPath();
  command.add_option("--circuit", path, "Circuit file, or folder that qgpu build made")->capture_default_str();
}

absl::StatusOr<Circuit> LoadCircuit(const std::string& option) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(option, error);
  const std::string path = is_folder ? option + "/circuit.bin" : option;
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(
        fmt::format("no circuit file {}; make one with qgpu build --out FILE, or name another with "
                    "--circuit or QGPU_CIRCUIT",
                    path));
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Circuit> circuit = ParseCircuit(*bytes);
  if (circuit.ok()) return circuit;
  const std::string message(circuit.status().message());
  return absl::Status(circuit.status().code(), fmt::format("{}: {}", path, message));
}

}  // namespace qgpu
