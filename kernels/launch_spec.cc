#include "kernels/launch_spec.h"

#include <limits>

#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;

absl::Status SpecError(const std::string& message) {
  return absl::InvalidArgumentError("launch description: " + message);
}

absl::StatusOr<Dim3> ParseDim3(const json& value, const char* key) {
  Dim3 dim;
  uint32_t* axes[3] = {&dim.x, &dim.y, &dim.z};
  if (!value.is_array() || value.empty() || value.size() > 3) {
    return SpecError(fmt::format("\"{}\" must be a list of one to three positive integers", key));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_number_integer() || value[i].get<int64_t>() < 1 || value[i].get<int64_t>() > 0x7fffffff) {
      return SpecError(fmt::format("\"{}\"[{}] must be a positive integer below 2^31", key, i));
    }
    *axes[i] = value[i].get<uint32_t>();
  }
  return dim;
}

absl::StatusOr<KernelArgument> ParseArgument(const json& value, size_t index) {
  if (!value.is_object()) return SpecError(fmt::format("argument {} must be an object", index));
  KernelArgument argument;
  bool has_words = false, has_value = false;
  for (const auto& [key, field] : value.items()) {
    if (key == "name" && field.is_string()) {
      argument.name = field.get<std::string>();
    } else if (key == "words" && field.is_array()) {
      has_words = true;
      for (const json& word : field) {
        if (!word.is_number_integer() || word.get<int64_t>() < std::numeric_limits<int32_t>::min() ||
            word.get<int64_t>() > std::numeric_limits<uint32_t>::max()) {
          return SpecError(fmt::format("argument {}: {} is not a 32-bit integer", index, word.dump()));
        }
        argument.words.push_back(static_cast<uint32_t>(word.get<int64_t>()));
      }
    } else if (key == "value" && field.is_number_unsigned()) {
      has_value = true;
      argument.scalar = field.get<uint64_t>();
    } else if (key == "value" && field.is_number_integer()) {
      has_value = true;
      argument.scalar = static_cast<uint64_t>(field.get<int64_t>());
    } else if (key == "output" && field.is_boolean()) {
      argument.is_output = field.get<bool>();
    } else {
      return SpecError(fmt::format("argument {}: unknown key or wrong type: \"{}\"", index, key));
    }
  }
  if (has_words == has_value) {
    return SpecError(fmt::format("argument {} needs either \"words\" (a buffer) or \"value\" (a scalar)", index));
  }
  argument.kind = has_words ? KernelArgument::Kind::kBuffer : KernelArgument::Kind::kScalar;
  return argument;
}

}  // namespace

Arena LayOutArena(const std::vector<KernelArgument>& arguments) {
  Arena arena;
  arena.words.push_back(0);
  for (const KernelArgument& argument : arguments) {
    if (argument.kind == KernelArgument::Kind::kScalar) {
      arena.byte_address.push_back(0);
      continue;
    }
    arena.byte_address.push_back(static_cast<uint32_t>(4 * arena.words.size()));
    arena.words.insert(arena.words.end(), argument.words.begin(), argument.words.end());
  }
  return arena;
}

absl::StatusOr<std::vector<KernelArgument>> OrderArguments(const std::vector<KernelArgument>& arguments,
                                                           const std::vector<std::string>& parameter_names) {
  const size_t count = parameter_names.size();
  std::vector<const KernelArgument*> by_parameter(count, nullptr);
  for (size_t i = 0; i < arguments.size(); ++i) {
    size_t parameter = i;
    if (!arguments[i].name.empty()) {
      for (parameter = 0; parameter < count && parameter_names[parameter] != arguments[i].name;) ++parameter;
      if (parameter == count) {
        std::string known;
        for (const std::string& name : parameter_names) known += (known.empty() ? "" : ", ") + name;
        return absl::InvalidArgumentError(
            fmt::format("the kernel has no parameter \"{}\"; its parameters are: {}", arguments[i].name, known));
      }
    } else if (parameter >= count) {
      return absl::InvalidArgumentError(
          fmt::format("{} arguments given, the kernel has {} parameters", arguments.size(), count));
    }
    if (by_parameter[parameter] != nullptr) {
      return absl::InvalidArgumentError(fmt::format("parameter \"{}\" is given twice", parameter_names[parameter]));
    }
    by_parameter[parameter] = &arguments[i];
  }
  std::vector<KernelArgument> ordered;
  for (size_t i = 0; i < count; ++i) {
    if (by_parameter[i] == nullptr) {
      return absl::InvalidArgumentError(fmt::format("no argument for parameter {} \"{}\" (give --arg {}=...)", i,
                                                    parameter_names[i], parameter_names[i]));
    }
    ordered.push_back(*by_parameter[i]);
    ordered.back().name = parameter_names[i];
  }
  return ordered;
}

std::string LaunchSpecToJson(const LaunchSpec& spec) {
  json arguments = json::array();
  for (const KernelArgument& argument : spec.arguments) {
    json entry;
    if (!argument.name.empty()) entry["name"] = argument.name;
    if (argument.kind == KernelArgument::Kind::kBuffer) {
      json words = json::array();
      for (uint32_t word : argument.words) words.push_back(static_cast<int32_t>(word));
      entry["words"] = words;
    } else {
      entry["value"] = static_cast<int64_t>(argument.scalar);
    }
    if (argument.is_output) entry["output"] = true;
    arguments.push_back(entry);
  }
  const json out = {{"kernel", spec.kernel},
                    {"grid", {spec.grid.x, spec.grid.y, spec.grid.z}},
                    {"block", {spec.block.x, spec.block.y, spec.block.z}},
                    {"token_budget", spec.token_budget},
                    {"dynamic_shared_bytes", spec.dynamic_shared_bytes},
                    {"arguments", arguments}};
  return out.dump();
}

absl::StatusOr<LaunchSpec> LaunchSpecFromJson(const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return SpecError("not a JSON object");
  LaunchSpec spec;
  for (const auto& [key, field] : value.items()) {
    if (key == "kernel" && field.is_string()) {
      spec.kernel = field.get<std::string>();
    } else if (key == "grid") {
      QGPU_ASSIGN_OR_RETURN(spec.grid, ParseDim3(field, "grid"));
    } else if (key == "block") {
      QGPU_ASSIGN_OR_RETURN(spec.block, ParseDim3(field, "block"));
    } else if (key == "token_budget" && field.is_number_integer() && field.get<int64_t>() > 0) {
      spec.token_budget = field.get<int64_t>();
    } else if (key == "dynamic_shared_bytes" && field.is_number_integer() && field.get<int64_t>() >= 0 &&
               field.get<int64_t>() <= 1 << 20) {
      spec.dynamic_shared_bytes = field.get<uint32_t>();
    } else if (key == "arguments" && field.is_array()) {
      for (const json& argument : field) {
        QGPU_ASSIGN_OR_RETURN(KernelArgument parsed, ParseArgument(argument, spec.arguments.size()));
        spec.arguments.push_back(std::move(parsed));
      }
    } else {
      return SpecError(fmt::format("unknown key or wrong type: \"{}\"", key));
    }
  }
  return spec;
}

}  // namespace qgpu
