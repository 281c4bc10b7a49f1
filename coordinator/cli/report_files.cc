#include "coordinator/cli/report_files.h"

#include "common/file.h"
#include "reports/csv.h"
#include "reports/drift_csv.h"
#include "reports/html.h"

namespace qgpu {

std::string FormatReport(const RunReport& report, const std::string& format) {
  if (format == "drift-csv") return WriteDriftCsv(report);
  return format == "csv" ? WriteCsv(report) : WriteHtml(report);
}

absl::Status WriteReportFile(const RunReport& report, const ReportTarget& target) {
  return WriteFileAtomically(target.path, FormatReport(report, target.format));
}

Progress FinalProgress(const RunReport& report) {
  const Totals totals = Count(report);
  Progress progress;
  progress.done = totals.items_finished;
  progress.total = totals.items;
  progress.not_passed = totals.items_finished - totals.count(CaseStatus::kPass);
  progress.tokens = totals.tokens;
  progress.elapsed_ms = report.run.finished_ms - report.run.started_ms;
  return progress;
}

}  // namespace qgpu
