#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "common/file.h"
#include "common/version.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/report_files.h"
#include "coordinator/cli/select_cases.h"
#include "coordinator/cli/stop_signals.h"
#include "coordinator/run/grpc_parties.h"
#include "coordinator/run/local_parties.h"
#include "coordinator/run/run_suite.h"
#include "coordinator/run/take_up.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

int ExitWith(const absl::Status& status) {
  fmt::print(stderr, "qgpu-coordinator: {}\n", std::string(status.message()));
  return ExitCodeFor(status);
}

struct Parties {
  std::vector<std::unique_ptr<WorkerClient>> workers;
  std::unique_ptr<OracleClient> oracle;
};

std::string ProgramPath(const std::string& given, const std::string& name) {
  return given.empty() ? ExecutableDirectory() + "/" + name : given;
}

// What is handed on to the local worker.
std::vector<std::pair<std::string, std::string>> LocalWorkerFlags(const RunSuiteOptions& options) {
  return {{"--circuit", options.circuit}, {"--base", options.base},       {"--executor", options.executor},
          {"--form", options.form},       {"--dtype", options.data_type}, {"--device", options.device}};
}

absl::StatusOr<Parties> Connect(const RunSuiteOptions& options) {
  Parties parties;
  if (options.oracle.empty()) {
    LocalCommand command{"local", ProgramPath(options.oracle_program, "qgpu-oracle"), {}};
    if (!options.native.empty()) command.arguments = {"--native", options.native};
    if (!options.golden.empty()) command.arguments.insert(command.arguments.end(), {"--golden", options.golden});
    QGPU_ASSIGN_OR_RETURN(parties.oracle, StartLocalOracle(command));
  } else {
    QGPU_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.oracle));
    QGPU_ASSIGN_OR_RETURN(parties.oracle, MakeOracleClient({options.oracle, address, options.tls, options.insecure}));
  }
  for (const std::string& node : options.nodes) {
    QGPU_ASSIGN_OR_RETURN(const Address address, ParseAddress(node));
    QGPU_ASSIGN_OR_RETURN(parties.workers.emplace_back(),
                          MakeWorkerClient({node, address, options.tls, options.insecure}));
  }
  if (options.nodes.empty()) {
    LocalCommand command{"local", ProgramPath(options.worker_program, "qgpu-worker"), {}};
    for (const auto& [flag, value] : LocalWorkerFlags(options)) {
      if (!value.empty()) command.arguments.insert(command.arguments.end(), {flag, value});
    }
    QGPU_ASSIGN_OR_RETURN(parties.workers.emplace_back(), StartLocalWorker(command));
  }
  return parties;
}

absl::StatusOr<std::vector<ReportTarget>> ReportTargets(const RunSuiteOptions& options) {
  if (options.reports.empty()) return std::vector<ReportTarget>{{"html", "report.html"}, {"csv", "report.csv"}};
  std::vector<ReportTarget> targets;
  for (const std::string& text : options.reports) {
    QGPU_ASSIGN_OR_RETURN(targets.emplace_back(), ParseReportTarget(text));
  }
  return targets;
}

absl::StatusOr<RunPlan> MakePlan(const RunSuiteOptions& options, const std::vector<std::string>& arguments) {
  for (const auto& [flag, value] : LocalWorkerFlags(options)) {
    if (value.empty() || options.nodes.empty()) continue;
    return absl::InvalidArgumentError(flag + " is for the local worker; with --node, give it to the worker");
  }
  if (!options.oracle.empty() && !(options.native + options.golden).empty()) {
    return absl::InvalidArgumentError("--native and --golden are for the local oracle; with --oracle, give them to it");
  }
  QGPU_ASSIGN_OR_RETURN(SelectedCases selected, SelectCases(options));
  RunPlan plan;
  plan.suites = std::move(selected.suites);
  plan.cases = std::move(selected.cases);
  plan.repetitions = options.repetitions;
  plan.quick = options.quick;
  plan.arguments = arguments;
  plan.take_up = options.resume;
  plan.preparers = static_cast<int>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, 4));
  plan.manifest = {{"command", fmt::format("run-suite {}", fmt::join(arguments, " "))},
                   {kReplaySetting, options.check ? "yes" : "no"},
                   {"launch limit", fmt::format("{} s", options.launch_limit_s)},
                   {"native limit", fmt::format("{} s", options.native_limit_s)}};
  return plan;
}

// The options of a run that is taken up: as it was started, and on top of that what is given now.
absl::StatusOr<RunSuiteOptions> OptionsOf(Store& store, const RunSuiteOptions& given,
                                          const std::vector<std::string>& arguments) {
  QGPU_ASSIGN_OR_RETURN(const RunReport run, store.ReadRun(given.resume));
  RunSuiteOptions options;
  QGPU_RETURN_IF_ERROR(ParseRunSuiteArguments(run.run.arguments, options));
  QGPU_RETURN_IF_ERROR(ParseRunSuiteArguments(arguments, options));
  options.database = given.database;
  return options;
}

// What a run that is taken up lacks.
int PrintMissing(Store& store, int64_t run_id) {
  const auto run = store.ReadRun(run_id);
  if (!run.ok()) return ExitWith(run.status());
  for (const ItemRow& item : run->items) {
    if (item.status.has_value()) continue;
    fmt::print("{} {} on {}, repetition {}\n", item.suite, item.CaseId(), item.worker, item.repetition);
  }
  return kExitGood;
}

// Before anything runs: a report that cannot be written would cost the whole run.
absl::Status CheckWritable(const std::vector<ReportTarget>& targets) {
  std::set<std::string> paths;
  for (const ReportTarget& target : targets) {
    const std::filesystem::path path(target.path);
    const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
    std::error_code ignored;
    const auto refuse = [&target](const std::string& why) {
      return absl::InvalidArgumentError(fmt::format("--report {}={}: {}", target.format, target.path, why));
    };
    if (std::filesystem::is_directory(path, ignored)) return refuse("is a folder; name a file");
    if (!std::filesystem::is_directory(folder, ignored) || access(folder.c_str(), W_OK) != 0) {
      return refuse("cannot write to " + folder + "/");
    }
    if (!paths.insert(target.path).second) return refuse("another report goes to the same file");
  }
  return absl::OkStatus();
}

// The figures on stdout; what each was measured on, words of other programs, on stderr.
void PrintHeadline(const RunReport& report) {
  const std::vector<HeadlineFigure> headline = Headline(report);
  for (const HeadlineFigure& figure : headline) fmt::print("{} {}\n", figure.name, figure.value);
  std::fflush(stdout);
  for (const HeadlineFigure& figure : headline) {
    if (figure.measured_on.empty()) continue;
    fmt::print(stderr, "{} measured on {}\n", figure.name, Printable(figure.measured_on));
  }
}

void PrintWhereItIs(const RunReport& report, const RunSuiteOptions& options, const std::vector<ReportTarget>& targets) {
  std::string files;
  for (const ReportTarget& target : targets) files += fmt::format(", {} in {}", target.format, target.path);
  fmt::print(stderr, "run {} in {}{}\n", report.run.id, options.database, files);
}

void PrintInterrupted(const RunReport& report, const RunSuiteOptions& options) {
  const Totals totals = Count(report);
  fmt::print(stderr, "interrupted: run {} holds {} of {} items, in {}; go on with: run-suite --resume {}{}\n",
             report.run.id, totals.items_finished, totals.items, options.database, report.run.id,
             options.database == RunSuiteOptions().database ? "" : " --db " + options.database);
}

// `store`: open already where a run is taken up.
int RunNewOrTakenUp(const RunSuiteOptions& options, const std::vector<std::string>& arguments,
                    std::unique_ptr<Store> store) {
  const auto targets = ReportTargets(options);
  if (!targets.ok()) return ExitWith(targets.status());
  const auto plan = MakePlan(options, arguments);
  if (!plan.ok()) return ExitWith(plan.status());
  if (options.dry_run) {
    if (options.resume != 0) return PrintMissing(*store, options.resume);
    for (const auto& one : plan->cases) fmt::print("{} {}\n", one->name().suite, one->name().Id());
    return kExitGood;
  }
  if (const absl::Status writable = CheckWritable(*targets); !writable.ok()) return ExitWith(writable);
  StopSignals signals;
  if (store == nullptr) {
    auto opened = Store::Open(options.database);
    if (!opened.ok()) return ExitWith(opened.status());
    store = *std::move(opened);
  }
  const auto parties = Connect(options);
  if (!parties.ok()) return ExitWith(parties.status());

  std::vector<WorkerClient*> workers;
  for (const auto& worker : parties->workers) workers.push_back(worker.get());
  ProgressPrinter printer(isatty(STDERR_FILENO) != 0);
  const auto report = RunSuite(*plan, workers, *parties->oracle, *store, printer, signals.token());
  if (!report.ok()) return ExitWith(report.status());
  printer.Finish(FinalProgress(*report));
  absl::Status written;
  for (const ReportTarget& target : *targets) written.Update(WriteReportFile(*report, target));
  PrintWhereItIs(*report, options, *targets);
  if (signals.received() != 0) {
    PrintInterrupted(*report, options);
    return 128 + signals.received();
  }
  PrintHeadline(*report);
  return written.ok() ? VerdictExitCode(*report) : ExitWith(written);
}

}  // namespace

int RunSuiteCommand(const RunSuiteOptions& given, const std::vector<std::string>& arguments) {
  if (given.resume == 0) return RunNewOrTakenUp(given, arguments, nullptr);
  if (access(given.database.c_str(), F_OK) != 0) {
    return ExitWith(absl::NotFoundError(fmt::format("--resume {}: no database {}", given.resume, given.database)));
  }
  auto store = Store::Open(given.database);
  if (!store.ok()) return ExitWith(store.status());
  const auto options = OptionsOf(**store, given, arguments);
  if (!options.ok()) return ExitWith(options.status());
  return RunNewOrTakenUp(*options, arguments, *std::move(store));
}

}  // namespace qgpu
