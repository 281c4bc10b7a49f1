// Which kernels a compilation produced, what their parameters are called, and where they stand: PTX has lost the
// parameters' names, LLVM IR has them.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"

namespace qgpu {

// `ir` is LLVM 19's text form of the device module, `ptx` what the backend made of it. Kernels come in the order of
// their lines. kInvalidArgument for a kernel whose name PTX cannot write; kInternal when the two do not belong together
// or have an unknown form.
absl::StatusOr<std::vector<CompiledKernel>> ReadKernelTable(const std::string& ir, const std::string& ptx);

}  // namespace qgpu
