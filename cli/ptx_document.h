// docs/PTX.md: what the lowering takes and what it refuses, found out by asking it, so that it cannot fall behind.
#pragma once

#include <string>

namespace qgpu {

std::string PtxDocument();

}  // namespace qgpu
