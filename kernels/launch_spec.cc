#include "kernels/launch_spec.h"

#include <algorithm>

namespace qgpu {
namespace {

// Whether `value`, two's complement in 64 bits, is the sign or zero extension of its low `bytes` bytes.
bool Fits(uint64_t value, size_t bytes) {
  if (bytes >= 8) return true;
  const int64_t high = static_cast<int64_t>(value) >> (8 * bytes - 1);
  return high == 0 || high == 1 || high == -1;
}

std::string Called(const KernelArgument& argument) {
  return argument.name.empty() ? "an argument" : fmt::format("argument {}", argument.name);
}

}  // namespace

KernelArgument KernelArgument::RawBuffer(std::string name, const Bytes& content) {
  KernelArgument argument;
  argument.name = std::move(name);
  argument.kind = Kind::kBuffer;
  argument.words = ToWords(content);
  argument.padding = static_cast<uint32_t>(4 * argument.words.size() - content.size());
  argument.is_raw = true;
  return argument;
}

KernelArgument KernelArgument::RawValue(std::string name, Bytes content) {
  KernelArgument argument;
  argument.name = std::move(name);
  argument.bytes = std::move(content);
  argument.is_raw = true;
  return argument;
}

absl::StatusOr<Bytes> ScalarBytes(const KernelArgument& argument, size_t size, bool is_aggregate) {
  if (argument.is_raw) {
    if (argument.bytes.size() == size) return argument.bytes;
    return absl::InvalidArgumentError(fmt::format("{}: {} bytes are given, the kernel's parameter has {}",
                                                  Called(argument), argument.bytes.size(), size));
  }
  if (is_aggregate || size > 8) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the kernel's parameter is a struct of {} bytes, not a number; give its bytes in a launch "
                    "description: \"by_value\": true, \"bytes\": \"...\" (docs/formats/launch.md)",
                    Called(argument), size));
  }
  if (!Fits(argument.scalar, size)) {
    return absl::InvalidArgumentError(fmt::format("{}: {} does not fit the {} bytes of the kernel's parameter",
                                                  Called(argument), static_cast<int64_t>(argument.scalar), size));
  }
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(argument.scalar >> (8 * i));
  return bytes;
}

Arena LayOutArena(const std::vector<KernelArgument>& arguments, uint32_t widest_access) {
  Arena arena;
  arena.words.push_back(0);
  for (const KernelArgument& argument : arguments) {
    if (argument.kind == KernelArgument::Kind::kScalar) {
      arena.byte_address.push_back(0);
      continue;
    }
    size_t alignment = std::max<size_t>(widest_access / 4, 1);  // in words
    const size_t size = argument.words.size();
    while (alignment > 1 && (size == 0 || size % alignment != 0)) alignment /= 2;
    arena.words.resize((arena.words.size() + alignment - 1) / alignment * alignment);
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

}  // namespace qgpu
