// How the arguments of a launch become the parameters of a PTX kernel: what the native engines agree on before either
// of them runs anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu::native {

// One parameter of the entry, as PTX declares it.
struct PtxParameter {
  std::string name;
  uint32_t bytes = 0;
  bool is_aggregate = false;  // a struct: .b8 name[bytes]
};

// The arguments in the kernel's order. They go to parameters by name where `names` (CUDA's, in order) is given,
// otherwise by PTX's names if an argument uses one, else by position. kInvalidArgument for those that do not fit.
absl::StatusOr<std::vector<KernelArgument>> InParameterOrder(const std::vector<KernelArgument>& arguments,
                                                             const std::vector<PtxParameter>& parameters,
                                                             const std::vector<std::string>& names);

// The bytes of parameter `index`; a buffer becomes `address`. kInvalidArgument where argument and parameter do not
// match in kind or size.
absl::StatusOr<std::vector<uint8_t>> ParameterBytes(size_t index, const KernelArgument& argument, uint64_t address,
                                                    const PtxParameter& parameter);

}  // namespace qgpu::native
