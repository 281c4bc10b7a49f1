// Random kernels of several instruction forms on few registers of every width, with branches and loops: what one
// instruction leaves, the next one takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/differential/instruction_forms.h"

namespace qgpu {

FormKernel MixedKernel(const std::vector<std::string>& forms, int count, SplitMix64& random);

}  // namespace qgpu
