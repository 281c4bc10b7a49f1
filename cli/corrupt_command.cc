// `qgpu corrupt`: a circuit file with one weight negated and all checksums right again, to show that the weights are
// what computes: a launch that uses the weight must then go wrong.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/circuit_option.h"
#include "cli/commands.h"
#include "common/file.h"
#include "common/version.h"
#include "model/weights/circuit.h"

namespace qgpu {
namespace {

struct CorruptOptions {
  std::string circuit;
  std::string out;
  int layer = 0;
  int64_t index = 0;
};

absl::StatusOr<ExitCode> Corrupt(const CorruptOptions& options) {
  QGPU_ASSIGN_OR_RETURN(Circuit circuit, LoadCircuit(options.circuit));
  QGPU_ASSIGN_OR_RETURN(const CorruptedWeight weight, CorruptCircuit(circuit, options.layer, options.index));
  const std::string corrupted = SerializeCircuit(circuit);
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(options.out, corrupted));
  const std::string line =
      fmt::format("{} row {} column {}: {} -> {}\ncircuit {} -> {}\n", weight.tensor, weight.row, weight.col,
                  weight.before, weight.after, CircuitFileHash(options.circuit), CircuitFileHash(options.out));
  std::fputs(line.c_str(), stdout);
  return kExitGood;
}

}  // namespace

void AddCorruptCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<CorruptOptions>();
  CLI::App* command = app.add_subcommand("corrupt", "Negate one non-zero weight of a circuit file and reseal it");
  AddCircuitOption(*command, options->circuit);
  command->add_option("--layer", options->layer, "Layer, from 0")->required();
  command->add_option("--index", options->index, "Non-zero weight of the layer, from 0")->required();
  command->add_option("--out", options->out, "Circuit file to write")->required();
  command->callback([options, &action] { action = [options] { return Corrupt(*options); }; });
}

}  // namespace qgpu
