#include "cli/launch_result.h"

#include <algorithm>
#include <filesystem>

#include "common/file.h"
#include "common/json_text.h"

namespace qgpu {
namespace {

nlohmann::ordered_json ToJson(const ShownBuffer& output) {
  if (output.is_raw) return ToHex(output.bytes);
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (const uint32_t word : ToWords(output.bytes)) words.push_back(static_cast<int32_t>(word));
  return words;
}

}  // namespace

std::vector<ShownBuffer> Outputs(const PreparedLaunch& launch, const LaunchResult& result) {
  const std::vector<KernelArgument>& arguments = launch.spec.arguments;
  const bool any_declared =
      std::any_of(arguments.begin(), arguments.end(), [](const KernelArgument& a) { return a.is_output; });
  std::vector<ShownBuffer> outputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].kind != KernelArgument::Kind::kBuffer || (any_declared && !arguments[i].is_output)) continue;
    const size_t first = std::min<size_t>(launch.arena.byte_address[i] / 4, result.memory.size());
    const std::vector<uint32_t> words(result.memory.begin() + static_cast<std::ptrdiff_t>(first), result.memory.end());
    outputs.push_back({arguments[i].name, FromWords(words, arguments[i].BufferBytes()), arguments[i].is_raw});
  }
  return outputs;
}

std::string FormatResult(const PreparedLaunch& launch, const LaunchResult& result) {
  std::string text;
  const bool is_whole = result.end == LaunchEnd::kDone && result.fault.ok();
  for (const ShownBuffer& output : is_whole ? Outputs(launch, result) : std::vector<ShownBuffer>()) {
    text += output.name + " =";
    if (output.is_raw) text += " bytes " + ToHex(output.bytes);
    if (!output.is_raw) {
      for (const uint32_t word : ToWords(output.bytes)) text += fmt::format(" {}", static_cast<int32_t>(word));
    }
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
                                 {"kernel", launch.kernel},
                                 {"engine", result.engine},
                                 {"grid", {grid.x, grid.y, grid.z}},
                                 {"block", {block.x, block.y, block.z}},
                                 {"end", EndName(result.end)}};
  if (!result.circuit.empty()) json["circuit"] = result.circuit;
  if (!result.message.empty()) json["message"] = result.message;
  nlohmann::ordered_json outputs = nlohmann::ordered_json::object();
  for (const ShownBuffer& output : Outputs(launch, result)) outputs[output.name] = ToJson(output);
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
  return JsonText(json) + "\n";
}

absl::Status WriteOutputs(const std::string& path, const PreparedLaunch& launch, const LaunchResult& result) {
  const std::vector<ShownBuffer> outputs = Outputs(launch, result);
  const auto write = [](const std::string& file, const Bytes& bytes) {
    return WriteFileAtomically(file, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const ShownBuffer& output : outputs)
      QGPU_RETURN_IF_ERROR(write(fmt::format("{}/{}.bin", path, output.name), output.bytes));
    return absl::OkStatus();
  }
  if (outputs.size() == 1) return write(path, outputs[0].bytes);
  return absl::InvalidArgumentError(
      fmt::format("--output-bytes {}: the launch has {} outputs; name a folder that exists", path, outputs.size()));
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
