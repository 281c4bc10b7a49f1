// What the kernels of the embedded suites must compute, written in plain C++ and independently of every engine: the
// tests' last word when engines agree on something wrong.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/suite.h"

namespace qgpu {

// The cases of all embedded suites, each once though several suites have it.
absl::StatusOr<std::vector<KernelCase>> EmbeddedCases();

// The whole memory image after `kernel_case` (one that expects a result): the arena of its arguments, in the order of
// the kernel's parameters, with its outputs computed.
// kNotFound when the kernel has no reference; kInvalidArgument when the case lacks an argument.
absl::StatusOr<MemoryImage> ExpectedMemory(const KernelCase& kernel_case);

// The words of output `name` in `memory`, which is the image of `kernel_case`'s launch. kNotFound for no such buffer.
absl::StatusOr<std::vector<uint32_t>> BufferOf(const KernelCase& kernel_case, const MemoryImage& memory,
                                               const std::string& name);

}  // namespace qgpu
