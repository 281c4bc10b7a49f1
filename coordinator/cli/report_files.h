// Reports as files and as text.
#pragma once

#include <string>

#include "coordinator/cli/options.h"
#include "coordinator/run/run_suite.h"
#include "reports/rows.h"

namespace qgpu {

// The report in one of ReportFormats().
std::string FormatReport(const RunReport& report, const std::string& format);
absl::Status WriteReportFile(const RunReport& report, const ReportTarget& target);

// The progress that a finished run ended with.
Progress FinalProgress(const RunReport& report);

}  // namespace qgpu
