#include "oracle/arguments/arguments.h"

#include <algorithm>
#include <cstring>

namespace qgpu::native {
namespace {

// Whether `value`, two's complement in 64 bits, is the sign or zero extension of its low `bytes` bytes.
bool Fits(uint64_t value, uint32_t bytes) {
  if (bytes >= 8) return true;
  const int64_t high = static_cast<int64_t>(value) >> (8 * bytes - 1);
  return high == 0 || high == 1 || high == -1;
}

}  // namespace

absl::StatusOr<std::vector<KernelArgument>> InParameterOrder(const std::vector<KernelArgument>& arguments,
                                                             const std::vector<PtxParameter>& parameters,
                                                             const std::vector<std::string>& names) {
  if (!names.empty() || parameters.empty()) {
    if (names.size() != parameters.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{} parameter names for a kernel of {} parameters", names.size(), parameters.size()));
    }
    return OrderArguments(arguments, names);
  }
  std::vector<std::string> ptx_names;
  for (const PtxParameter& parameter : parameters) ptx_names.push_back(parameter.name);
  const bool uses_ptx_names = std::any_of(arguments.begin(), arguments.end(), [&](const KernelArgument& argument) {
    return std::find(ptx_names.begin(), ptx_names.end(), argument.name) != ptx_names.end();
  });
  if (uses_ptx_names) return OrderArguments(arguments, ptx_names);
  std::vector<KernelArgument> by_position = arguments;
  for (KernelArgument& argument : by_position) argument.name.clear();
  return OrderArguments(by_position, ptx_names);
}

absl::StatusOr<std::vector<uint8_t>> ParameterBytes(size_t index, const KernelArgument& argument, uint64_t address,
                                                    const PtxParameter& parameter) {
  const bool is_buffer = argument.kind == KernelArgument::Kind::kBuffer;
  const uint64_t value = is_buffer ? address : argument.scalar;
  if (is_buffer && parameter.bytes != 8 && parameter.bytes != 4) {
    return absl::InvalidArgumentError(fmt::format("argument {} is a buffer, but the parameter {} has {} bytes", index,
                                                  parameter.name, parameter.bytes));
  }
  if (parameter.bytes > 8 || !Fits(value, parameter.bytes)) {
    return absl::InvalidArgumentError(fmt::format("argument {}: {} does not fit the {} bytes of the parameter {}",
                                                  index, static_cast<int64_t>(value), parameter.bytes, parameter.name));
  }
  std::vector<uint8_t> bytes(parameter.bytes);
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

}  // namespace qgpu::native
