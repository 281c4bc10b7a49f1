#include "oracle/arguments/arguments.h"

#include <algorithm>

namespace qgpu::native {

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
  if (argument.kind == KernelArgument::Kind::kScalar) {
    return ScalarBytes(argument, parameter.bytes, parameter.is_aggregate);
  }
  if (parameter.bytes != 8 && parameter.bytes != 4) {
    return absl::InvalidArgumentError(fmt::format("argument {} is a buffer, but the parameter {} has {} bytes", index,
                                                  parameter.name, parameter.bytes));
  }
  Bytes bytes(parameter.bytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(address >> (8 * i));
  return bytes;
}

}  // namespace qgpu::native
