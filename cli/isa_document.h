// docs/formats/isa.md, written from the tables that the engines use, so that it cannot fall behind them.
#pragma once

#include <string>

namespace qgpu {

std::string IsaDocument();

}  // namespace qgpu
