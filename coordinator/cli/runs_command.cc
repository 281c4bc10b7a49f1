// Subcommands that only read the database.
#include <unistd.h>

#include <cstdio>

#include "common/exit_code.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/report_files.h"
#include "coordinator/store/store.h"

namespace qgpu {
namespace {

int ExitWith(const absl::Status& status) {
  fmt::print(stderr, "qgpu-coordinator: {}\n", std::string(status.message()));
  return ExitCodeFor(status);
}

// To read runs a database must be there already.
absl::StatusOr<std::unique_ptr<Store>> OpenExisting(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(fmt::format("no database {}; run-suite makes one, or give --db", path));
  }
  return Store::Open(path);
}

absl::StatusOr<RunReport> ReadRun(const std::string& database, int64_t run_id) {
  QGPU_ASSIGN_OR_RETURN(auto store, OpenExisting(database));
  if (run_id == 0) {
    QGPU_ASSIGN_OR_RETURN(run_id, store->NewestRun());
  }
  return store->ReadRun(run_id);
}

}  // namespace

int ListRunsCommand(const std::string& database) {
  const auto store = OpenExisting(database);
  if (!store.ok()) return ExitWith(store.status());
  const auto runs = (*store)->ListRuns();
  if (!runs.ok()) return ExitWith(runs.status());
  for (const RunRow& run : *runs) {
    std::string suites;
    for (const SuiteRow& suite : run.suites) suites += (suites.empty() ? "" : "+") + suite.name;
    fmt::print("{}\t{}\t{}\t{}\t{}\n", run.id, FormatTime(run.started_ms), suites, run.state,
               run.exit_code < 0 ? "-" : std::to_string(run.exit_code));
  }
  return kExitGood;
}

int ShowRunCommand(const std::string& database, int64_t run_id) {
  const auto report = ReadRun(database, run_id);
  if (!report.ok()) return ExitWith(report.status());
  fmt::print("run {}, {}, {}\n", report->run.id, FormatTime(report->run.started_ms), report->run.state);
  for (const HeadlineFigure& figure : Headline(*report)) fmt::print("{} {}\n", figure.name, figure.value);
  for (const ItemRow& item : report->items) {
    const AttemptRow* last = item.LastAttempt();
    fmt::print("{}\t{}\t{}\t{}\t{}\n", item.status.has_value() ? CaseStatusName(*item.status) : "not run",
               item.CaseId(), item.worker, item.repetition, last == nullptr ? "" : last->message);
  }
  return kExitGood;
}

int ReportCommand(const std::string& database, int64_t run_id, const std::string& format, const std::string& output) {
  const auto report = ReadRun(database, run_id);
  if (!report.ok()) return ExitWith(report.status());
  if (output.empty()) {
    fmt::print("{}", FormatReport(*report, format));
    return kExitGood;
  }
  const absl::Status written = WriteReportFile(*report, {format, output});
  return written.ok() ? kExitGood : ExitWith(written);
}

}  // namespace qgpu
