// Launch descriptions as JSON, see launch_spec.h and docs/formats/launch.md.
#include <filesystem>
#include <functional>
#include <limits>

#include "common/file.h"
#include "kernels/launch_spec.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& name)>;

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

bool IsWord(const json& number) {
  if (number.is_number_unsigned()) return number.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  return number.is_number_integer() && number.get<int64_t>() >= std::numeric_limits<int32_t>::min();
}

// One argument, key by key. Its content is one of "words", "value", "bytes", "base64", "file", "zero_bytes".
class ArgumentParser {
 public:
  ArgumentParser(size_t index, const FileReader& read_file) : index_(index), read_file_(read_file) {}

  absl::StatusOr<KernelArgument> Parse(const json& value) {
    if (!value.is_object()) return SpecError(fmt::format("argument {} must be an object", index_));
    for (const auto& [key, field] : value.items()) QGPU_RETURN_IF_ERROR(ParseKey(key, field));
    if (contents_ != 1) {
      return Error(
          "needs exactly one of \"words\" (a buffer), \"value\" (a scalar), and for raw content \"bytes\", \"base64\", "
          "\"file\" or \"zero_bytes\"");
    }
    if (by_value_ && !raw_.has_value()) return Error("\"by_value\" goes with raw content only");
    if (raw_.has_value()) {
      const bool is_output = argument_.is_output;
      argument_ = by_value_ ? KernelArgument::RawValue(argument_.name, *std::move(raw_))
                            : KernelArgument::RawBuffer(argument_.name, *raw_);
      argument_.is_output = is_output;
    }
    if (argument_.is_output && argument_.kind == KernelArgument::Kind::kScalar) {
      return Error("a scalar cannot be an output: it is passed by value");
    }
    if (argument_.is_raw && by_value_ && argument_.bytes.empty()) return Error("a value has at least one byte");
    return std::move(argument_);
  }

 private:
  absl::Status Error(const std::string& message) const {
    const std::string name = argument_.name.empty() ? "" : fmt::format(" ({})", argument_.name);
    return SpecError(fmt::format("argument {}{}: {}", index_, name, message));
  }

  absl::Status ParseKey(const std::string& key, const json& field) {
    if (key == "name" && field.is_string()) {
      argument_.name = field.get<std::string>();
    } else if (key == "words" && field.is_array()) {
      return ParseWords(field);
    } else if (key == "value" && field.is_number_integer()) {
      ++contents_;
      argument_.scalar =
          field.is_number_unsigned() ? field.get<uint64_t>() : static_cast<uint64_t>(field.get<int64_t>());
    } else if (key == "output" && field.is_boolean()) {
      argument_.is_output = field.get<bool>();
    } else if (key == "by_value" && field.is_boolean()) {
      by_value_ = field.get<bool>();
    } else if (key == "bytes" && field.is_string()) {
      return TakeRaw(key, FromHex(field.get_ref<const std::string&>()));
    } else if (key == "base64" && field.is_string()) {
      return TakeRaw(key, FromBase64(field.get_ref<const std::string&>()));
    } else if (key == "zero_bytes" && field.is_number_unsigned() && field.get<uint64_t>() <= kMaxArgumentBytes) {
      return TakeRaw(key, Bytes(field.get<uint64_t>(), 0));
    } else if (key == "file" && field.is_string()) {
      if (read_file_ == nullptr) return Error("\"file\" is for launch descriptions that are files themselves");
      QGPU_ASSIGN_OR_RETURN(const std::string text, read_file_(field.get<std::string>()));
      return TakeRaw(key, Bytes(text.begin(), text.end()));
    } else {
      return Error(fmt::format("unknown key or wrong type: \"{}\"", key));
    }
    return absl::OkStatus();
  }

  absl::Status ParseWords(const json& field) {
    ++contents_;
    argument_.kind = KernelArgument::Kind::kBuffer;
    for (const json& word : field) {
      if (!IsWord(word)) return Error(fmt::format("{} is not a 32-bit integer", word.dump()));
      argument_.words.push_back(static_cast<uint32_t>(word.get<int64_t>()));
    }
    return absl::OkStatus();
  }

  absl::Status TakeRaw(const std::string& key, absl::StatusOr<Bytes> bytes) {
    if (!bytes.ok()) return Error(fmt::format("\"{}\": {}", key, std::string(bytes.status().message())));
    if (bytes->size() > kMaxArgumentBytes) {
      return Error(fmt::format("\"{}\" has {} bytes, the limit is {}", key, bytes->size(), kMaxArgumentBytes));
    }
    ++contents_;
    raw_ = *std::move(bytes);
    return absl::OkStatus();
  }

  size_t index_;
  const FileReader& read_file_;
  KernelArgument argument_;
  std::optional<Bytes> raw_;
  bool by_value_ = false;
  int contents_ = 0;
};

json ArgumentToJson(const KernelArgument& argument) {
  json entry;
  if (!argument.name.empty()) entry["name"] = argument.name;
  if (argument.kind == KernelArgument::Kind::kScalar && argument.is_raw) {
    entry["bytes"] = ToHex(argument.bytes);
    entry["by_value"] = true;
  } else if (argument.kind == KernelArgument::Kind::kScalar) {
    entry["value"] = static_cast<int64_t>(argument.scalar);
  } else if (argument.is_raw) {
    entry["bytes"] = ToHex(FromWords(argument.words, argument.BufferBytes()));
  } else {
    json words = json::array();
    for (uint32_t word : argument.words) words.push_back(static_cast<int32_t>(word));
    entry["words"] = words;
  }
  if (argument.is_output) entry["output"] = true;
  return entry;
}

absl::StatusOr<LaunchSpec> FromJson(const std::string& text, const FileReader& read_file) {
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
        ArgumentParser parser(spec.arguments.size(), read_file);
        QGPU_ASSIGN_OR_RETURN(KernelArgument parsed, parser.Parse(argument));
        spec.arguments.push_back(std::move(parsed));
      }
    } else {
      return SpecError(fmt::format("unknown key or wrong type: \"{}\"", key));
    }
  }
  return spec;
}

}  // namespace

std::string LaunchSpecToJson(const LaunchSpec& spec) {
  json arguments = json::array();
  for (const KernelArgument& argument : spec.arguments) arguments.push_back(ArgumentToJson(argument));
  const json out = {{"kernel", spec.kernel},
                    {"grid", {spec.grid.x, spec.grid.y, spec.grid.z}},
                    {"block", {spec.block.x, spec.block.y, spec.block.z}},
                    {"token_budget", spec.token_budget},
                    {"dynamic_shared_bytes", spec.dynamic_shared_bytes},
                    {"arguments", arguments}};
  return out.dump();
}

absl::StatusOr<LaunchSpec> LaunchSpecFromJson(const std::string& text) { return FromJson(text, nullptr); }

absl::StatusOr<LaunchSpec> ReadLaunchSpec(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxLaunchFileBytes));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const absl::StatusOr<LaunchSpec> spec = FromJson(
      text, [&folder](const std::string& name) { return ReadFile((folder / name).string(), kMaxArgumentBytes); });
  if (spec.ok() || !absl::IsInvalidArgument(spec.status())) return spec;
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(spec.status().message())));
}

}  // namespace qgpu
