#include "cli/launch_result.h"

#include <algorithm>

#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

const char* EndName(LaunchEnd end) {
  switch (end) {
    case LaunchEnd::kDone:
      return "done";
    case LaunchEnd::kTrap:
      return "trap";
    case LaunchEnd::kBudget:
      return "budget";
  }
  return "?";
}

struct Output {
  std::string name;
  std::vector<int32_t> words;
};

std::vector<Output> Outputs(const PreparedLaunch& launch, const LaunchResult& result) {
  const std::vector<KernelArgument>& arguments = launch.lowered.arguments;
  const bool any_declared =
      std::any_of(arguments.begin(), arguments.end(), [](const KernelArgument& a) { return a.is_output; });
  std::vector<Output> outputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != KernelArgument::Kind::kBuffer || (any_declared && !arguments[i].is_output)) continue;
    const size_t first = launch.lowered.byte_address[i] / 4;
    Output output{arguments[i].name, {}};
    for (size_t word = first; word < first + arguments[i].words.size() && word < result.memory.size(); ++word) {
      output.words.push_back(static_cast<int32_t>(result.memory[word]));
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace

std::string FormatResult(const PreparedLaunch& launch, const LaunchResult& result) {
  std::string text;
  for (const Output& output : Outputs(launch, result)) {
    text += output.name + " =";
    for (int32_t word : output.words) text += fmt::format(" {}", word);
    text += "\n";
  }
  if (!result.tokens.empty()) text += fmt::format("tokens {}\npasses {}\n", result.tokens.size(), result.passes);
  if (result.check.has_value()) {
    text += fmt::format("checked {} positions, {} mismatches\n", result.check->positions, result.check->mismatches);
  }
  return text;
}

std::string ResultToJson(const PreparedLaunch& launch, const LaunchResult& result) {
  const Dim3 &grid = launch.spec.grid, &block = launch.spec.block;
  nlohmann::ordered_json json = {{"schema_version", 1},
                                 {"kernel", launch.lowered.kernel},
                                 {"engine", result.engine},
                                 {"grid", {grid.x, grid.y, grid.z}},
                                 {"block", {block.x, block.y, block.z}},
                                 {"end", EndName(result.end)}};
  if (!result.circuit.empty()) json["circuit"] = result.circuit;
  if (!result.message.empty()) json["message"] = result.message;
  nlohmann::ordered_json outputs = nlohmann::ordered_json::object();
  for (const Output& output : Outputs(launch, result)) outputs[output.name] = output.words;
  json["outputs"] = outputs;
  if (!result.tokens.empty()) {
    json["tokens"] = result.tokens.size();
    json["passes"] = result.passes;
  }
  if (result.check.has_value()) {
    json["positions_checked"] = result.check->positions;
    json["mismatches"] = result.check->mismatches;
    if (!result.check->first.empty()) json["first_mismatch"] = result.check->first;
  }
  return json.dump() + "\n";
}

absl::Status ResultStatus(const LaunchResult& result) {
  if (result.check.has_value() && !result.check->exact) {
    return absl::DataLossError(fmt::format("the model and the reference disagree: {}", result.check->first));
  }
  if (!result.fault.ok()) return result.fault;
  if (result.end != LaunchEnd::kDone) return absl::AbortedError(result.message);
  return absl::OkStatus();
}

}  // namespace qgpu
