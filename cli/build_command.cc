// `qgpu build`: the circuit for a base model, and what it costs. With a folder to write, that is the model in split
// form: the circuit beside a note of the base it was built for, which stays as it is.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "common/file.h"
#include "common/json_text.h"
#include "model/base/inspect.h"
#include "model/base/random_base.h"
#include "model/merge/base_build.h"
#include "model/weights/build_circuit.h"

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

nlohmann::ordered_json ReportToJson(const BuiltCircuit& built, const std::string& hash, size_t file_bytes) {
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
  return {{"schema_version", 1},
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
}

// The dense form's shape and size, for JSON.
nlohmann::ordered_json DenseToJson(const ModelShape& dense) {
  return {{"hidden", dense.hidden},
          {"layers", dense.layers.size()},
          {"vocabulary", dense.vocabulary},
          {"linear_heads", dense.linear_value_heads},
          {"mlp_width", dense.intermediate},
          {"tied_head", dense.tied_head},
          {"parameters", CountParameters(dense)}};
}

// What qgpu_model.json says of a model in split form.
std::string ModelNote(const std::string& base, const std::string& circuit_hash, int base_hidden) {
  const nlohmann::ordered_json note = {
      {"form", "split"},
      {"circuit", circuit_hash},
      {"circuit_file", "circuit.bin"},
      {"base_hidden", base_hidden},
      {"base", base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(base)},
  };
  return JsonText(note, 2) + "\n";
}

// To a file where `out` is one or is named like one (.bin), otherwise into a folder, which is made.
absl::Status WriteModel(const BuildOptions& options, const std::string& bytes, const std::string& hash, int hidden) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_folder = fs::is_directory(options.out, error) ||
                         (!fs::exists(options.out, error) && fs::path(options.out).extension() != ".bin");
  if (!is_folder) return WriteFileAtomically(options.out, bytes);
  fs::create_directories(options.out, error);
  if (error) return absl::UnavailableError(fmt::format("cannot create {}: {}", options.out, error.message()));
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(options.out + "/circuit.bin", bytes));
  const std::string base = options.base.empty() ? "" : fs::absolute(options.base, error).lexically_normal().string();
  return WriteFileAtomically(options.out + "/qgpu_model.json", ModelNote(base, hash, hidden));
}

absl::StatusOr<ExitCode> Build(const BuildOptions& options) {
  std::optional<BaseBuild> with_base;
  std::optional<BuiltCircuit> alone;
  if (options.base.empty()) {
    QGPU_ASSIGN_OR_RETURN(alone, BuildCircuit(static_cast<int>(EmbeddedBaseShape().hidden)));
  } else {
    QGPU_ASSIGN_OR_RETURN(with_base, BuildForBase(options.base));
  }
  const BuiltCircuit& built = with_base ? *with_base->built : *alone;
  const std::string bytes = SerializeCircuit(built.circuit), hash = CircuitHash(built.circuit);
  if (!options.out.empty()) QGPU_RETURN_IF_ERROR(WriteModel(options, bytes, hash, built.circuit.base_hidden));
  std::string text;
  if (options.json) {
    nlohmann::ordered_json json = ReportToJson(built, hash, bytes.size());
    if (with_base) json["dense_form"] = DenseToJson(with_base->dense);
    text = JsonText(json) + "\n";
  } else {
    text = FormatReport(built, hash, bytes.size()) + (with_base ? DescribeDenseForm(*with_base) : "");
  }
  std::fputs(text.c_str(), stdout);
  if (!options.out.empty()) fmt::print(stderr, "build: wrote {}\n", options.out);
  return kExitGood;
}

}  // namespace

void AddBuildCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App* command = app.add_subcommand("build", "Build the circuit for a base model, and say what it costs");
  command->add_option("--base", options->base, "Folder of the base model (default: the embedded one)");
  command->add_option("--out", options->out,
                      "Folder to make, the model in split form, or circuit file (*.bin) to write (default: none)");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &action] { action = [options] { return Build(*options); }; });
}

}  // namespace qgpu
