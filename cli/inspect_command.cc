// `qgpu inspect DIR`: what a checkpoint is, what is wrong with it, and what `qgpu build --base` would make of it.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "common/json_text.h"
#include "model/base/inspect.h"
#include "model/merge/base_build.h"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

struct InspectCommandOptions {
  std::string directory;
  bool all_bytes = false, json = false;
};

int64_t FullLayers(const ModelShape& shape) {
  return std::count(shape.layers.begin(), shape.layers.end(), LayerType::kFullAttention);
}

std::string FormatShape(const ModelShape& shape) {
  const int64_t full = FullLayers(shape), linear = static_cast<int64_t>(shape.layers.size()) - full;
  std::string text;
  text += fmt::format("layers               {}: {} linear attention, {} full attention\n", shape.layers.size(), linear,
                      full);
  text += fmt::format("hidden size          {}, MLP width {}\n", shape.hidden, shape.intermediate);
  text += fmt::format("vocabulary           {}, head {}\n", shape.vocabulary,
                      shape.tied_head ? "tied to the embedding" : "of its own");
  text += fmt::format("linear attention     {} key and {} value heads, keys of {}, values of {}, convolution of {}\n",
                      shape.linear_key_heads, shape.linear_value_heads, shape.linear_key_dim, shape.linear_value_dim,
                      shape.conv_kernel);
  text += fmt::format("full attention       {} query and {} key/value heads of {}, rotary on {}, theta {}\n",
                      shape.attention_heads, shape.kv_heads, shape.head_dim, shape.rotary_dim(), shape.rope_theta);
  text += fmt::format("norm epsilon         {}\n", shape.norm_eps);
  text += fmt::format("longest context      {}\n", shape.max_positions);
  return text;
}

std::string FormatReport(const CheckpointReport& report) {
  const auto or_none = [](const std::string& text) { return text.empty() ? "(none)" : text; };
  std::string text = fmt::format("checkpoint           {}\narchitecture         {}, model type {}\n", report.directory,
                                 or_none(report.architecture), or_none(report.model_type));
  if (report.shape) text += FormatShape(*report.shape);
  for (const WeightFileFigures& file : report.files) {
    text += fmt::format("file                 {}: {} bytes, {} tensors\n", file.name, file.bytes, file.tensors);
  }
  for (const auto& [type, figures] : report.types) {
    text += fmt::format("stored as {:<10} {} tensors, {} parameters, {} bytes\n", type, figures.tensors,
                        figures.elements, figures.bytes);
  }
  text += fmt::format("parameters           {} of the text model\n", report.used_parameters);
  if (report.skipped_tensors > 0) {
    text += fmt::format("not read             {} tensors, {} parameters ({}{})\n", report.skipped_tensors,
                        report.skipped_parameters, fmt::join(report.skipped_examples, ", "),
                        static_cast<size_t>(report.skipped_tensors) > report.skipped_examples.size() ? ", ..." : "");
  }
  text += fmt::format("tokenizer            {}\n", report.has_tokenizer ? "tokenizer.json" : "(none)");
  if (!report.circuit.empty()) text += fmt::format("merged with          circuit {}\n", report.circuit);
  for (const std::string& problem : report.damage) text += fmt::format("damage               {}\n", problem);
  return text;
}

ordered_json ShapeToJson(const ModelShape& shape) { return ordered_json::parse(ModelShapeToConfig(shape, "", -1)); }

ordered_json ReportToJson(const CheckpointReport& report) {
  ordered_json files = ordered_json::array(), types = ordered_json::object();
  for (const WeightFileFigures& file : report.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"tensors", file.tensors}});
  }
  for (const auto& [type, figures] : report.types) {
    types[type] = {{"tensors", figures.tensors}, {"parameters", figures.elements}, {"bytes", figures.bytes}};
  }
  return {{"schema_version", 1},
          {"directory", report.directory},
          {"architecture", report.architecture},
          {"model_type", report.model_type},
          {"config", report.shape ? ShapeToJson(*report.shape) : ordered_json()},
          {"files", files},
          {"types", types},
          {"parameters", report.used_parameters},
          {"skipped_tensors", report.skipped_tensors},
          {"skipped_parameters", report.skipped_parameters},
          {"tokenizer", report.has_tokenizer},
          {"circuit", report.circuit},
          {"damage", report.damage}};
}

// What `qgpu build --base` says: an error's message, or the dense form.
struct BuildVerdict {
  bool accepted = false;
  std::string text;
};
BuildVerdict AskBuild(const std::string& directory) {
  const absl::StatusOr<BaseBuild> build = BuildForBase(directory);
  if (!build.ok()) return {false, std::string(build.status().message()) + "\n"};
  return {true, DescribeDenseForm(*build)};
}

absl::StatusOr<ExitCode> Inspect(const InspectCommandOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const CheckpointReport report,
                        InspectCheckpoint(options.directory, {.all_bytes = options.all_bytes}));
  const BuildVerdict verdict = AskBuild(options.directory);
  if (options.json) {
    ordered_json json = ReportToJson(report);
    json["build"] = {{"accepted", verdict.accepted}, {"message", verdict.text}};
    std::printf("%s\n", JsonText(json).c_str());
  } else {
    std::printf("%s\nqgpu build --base %s %s\n%s", FormatReport(report).c_str(), options.directory.c_str(),
                verdict.accepted ? "accepts it" : "refuses it:", verdict.text.c_str());
  }
  return report.damage.empty() ? kExitGood : kExitUsage;
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<InspectCommandOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Describe a checkpoint, its damage, and what build would say");
  command->add_option("directory", options->directory, "Folder of the checkpoint")->required();
  command->add_flag("--all-bytes", options->all_bytes,
                    "Also read every byte: hashes against an export's manifest, weights that are not finite");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &action] { action = [options] { return Inspect(*options); }; });
}

}  // namespace qgpu
