// report.html: one file that opens from disk and reads without scripts, fonts or anything else from elsewhere.
#pragma once

#include <string>

#include "reports/rows.h"

namespace qgpu {

// The whole page. All text that comes from kernels, files or machines is escaped.
std::string WriteHtml(const RunReport& report);

}  // namespace qgpu
