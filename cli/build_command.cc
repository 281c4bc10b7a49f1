// `qgpu build`: the circuit for a base model, and what it costs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "common/file.h"
#include "model/base/checkpoint.h"
#include "model/base/random_base.h"
#include "model/weights/build_circuit.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

struct BuildOptions {
  std::string base, out;
  bool json = false;
};

size_t NonZeros(const CircuitLayer& layer) {
  size_t count = 0;
  for (const SparseMatrix* matrix :
       {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.out, &layer.gate, &layer.up, &layer.down}) {
    count += matrix->nonzeros();
  }
  return count;
}

std::string FormatReport(const BuiltCircuit& built, const std::string& hash, size_t file_bytes) {
  const Circuit& circuit = built.circuit;
  const CircuitReport& report = built.report;
  std::string text = fmt::format("{:>5} {:>5} {:>7} {:>9} {:>16} {:>14} {:>16}\n", "layer", "heads", "neurons",
                                 "restoring", "live after mixer", "live after MLP", "non-zero weights");
  LayerFigures widest;
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const LayerFigures& layer = report.layers[i];
    text += fmt::format("{:>5} {:>5} {:>7} {:>9} {:>16} {:>14} {:>16}\n", i, layer.heads, layer.neurons,
                        layer.restoring, layer.live_after_mixer, layer.live_after_mlp, NonZeros(circuit.layers[i]));
    widest.neurons = std::max(widest.neurons, layer.neurons);
    widest.heads = std::max(widest.heads, layer.heads);
  }
  text += fmt::format("layers               {} of at most {}\n", report.layers.size(), CircuitLimits{}.layers);
  text += fmt::format("neurons, widest      {} of at most {}\n", widest.neurons, CircuitLimits{}.neurons);
  text += fmt::format("heads, most          {} of at most {}\n", widest.heads, CircuitLimits{}.heads);
  text += fmt::format("residual dimensions  {} of at most {}, after {} of the base\n", report.dimensions,
                      CircuitLimits{}.dimensions, circuit.base_hidden);
  text += fmt::format("machine ids          {}\n", report.machine_ids);
  text += fmt::format("non-zero weights     {} ({} bytes in the file)\n", report.nonzero_weights, file_bytes);
  text += fmt::format("smallest gate margin {:.3f} (128 without noise)\n", report.worst_margin);
  text += fmt::format("float32 error bound  {:.3g}, of {}\n", report.float32_error, report.noisiest_signal);
  text += fmt::format("circuit              {}\n", hash);
  return text;
}

std::string ReportToJson(const BuiltCircuit& built, const std::string& hash, size_t file_bytes) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (size_t i = 0; i < built.report.layers.size(); ++i) {
    const LayerFigures& layer = built.report.layers[i];
    layers.push_back({{"heads", layer.heads},
                      {"neurons", layer.neurons},
                      {"restoring_neurons", layer.restoring},
                      {"live_after_mixer", layer.live_after_mixer},
                      {"live_after_mlp", layer.live_after_mlp},
                      {"nonzero_weights", NonZeros(built.circuit.layers[i])}});
  }
  const nlohmann::ordered_json json = {{"schema_version", 1},
                                       {"circuit", hash},
                                       {"base_hidden", built.circuit.base_hidden},
                                       {"added_dimensions", built.circuit.width},
                                       {"machine_ids", built.report.machine_ids},
                                       {"nonzero_weights", built.report.nonzero_weights},
                                       {"file_bytes", file_bytes},
                                       {"smallest_gate_margin", built.report.worst_margin},
                                       {"float32_error_bound", built.report.float32_error},
                                       {"noisiest_signal", built.report.noisiest_signal},
                                       {"layers", layers}};
  return json.dump() + "\n";
}

// A base whose linear attention heads are not the circuit's cannot carry it.
absl::StatusOr<int> BaseHidden(const std::string& base) {
  if (base.empty()) return static_cast<int>(EmbeddedBaseShape().hidden);
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(base));
  const ModelShape& shape = checkpoint->shape();
  if (shape.linear_key_dim != kHeadDim || shape.linear_value_dim != kHeadDim) {
    return absl::FailedPreconditionError(
        fmt::format("{}: linear attention heads are {} x {}, the circuit needs {} x {}", base, shape.linear_key_dim,
                    shape.linear_value_dim, kHeadDim, kHeadDim));
  }
  return static_cast<int>(shape.hidden);
}

absl::StatusOr<ExitCode> Build(const BuildOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const int hidden, BaseHidden(options.base));
  QGPU_ASSIGN_OR_RETURN(const BuiltCircuit built, BuildCircuit(hidden));
  const std::string bytes = SerializeCircuit(built.circuit);
  if (!options.out.empty()) QGPU_RETURN_IF_ERROR(WriteFileAtomically(options.out, bytes));
  const std::string hash = CircuitHash(built.circuit);
  const std::string text =
      options.json ? ReportToJson(built, hash, bytes.size()) : FormatReport(built, hash, bytes.size());
  std::fputs(text.c_str(), stdout);
  return kExitGood;
}

}  // namespace

void AddBuildCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* command = app.add_subcommand("build", "Build the circuit for a base model, and say what it costs");
  command->add_option("--base", options->base, "Folder of the base model (default: the embedded one)");
  command->add_option("--out", options->out, "Circuit file to write (default: none)");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &action] { action = [options] { return Build(*options); }; });
}

}  // namespace qgpu
