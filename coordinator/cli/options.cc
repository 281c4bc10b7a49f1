#include "coordinator/cli/options.h"

#include <algorithm>

#include "proto/server_flags.h"

namespace qgpu {

const std::vector<std::string>& ReportFormats() {
  static const std::vector<std::string> formats = {"html", "csv", "drift-csv"};
  return formats;
}

absl::StatusOr<ReportTarget> ParseReportTarget(const std::string& text) {
  const size_t equals = text.find('=');
  const ReportTarget target{text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
  const auto& formats = ReportFormats();
  if (std::find(formats.begin(), formats.end(), target.format) == formats.end() || target.path.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--report {}: expected FORMAT=PATH, with one of the formats {}", text, fmt::join(formats, ", ")));
  }
  return target;
}

void AddRunSuiteOptions(CLI::App& command, RunSuiteOptions& options) {
  command.add_option("suites", options.suites, "names of embedded suites, or suite files (*.json)")
      ->capture_default_str();
  command.add_option("--db", options.database, "database")->capture_default_str();
  command.add_option("--report", options.reports,
                     "FORMAT=PATH, repeatable; default html=report.html and csv=report.csv");
  command.add_option("--filter", options.filter, "glob over kernel/case, or over kernel: only what matches");
  command.add_option("--case-list", options.case_list, "file with one kernel/case a line: only these");
  command.add_option("--repetitions", options.repetitions, "how often each case runs on each worker")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "the first case of every kernel; not fit as a baseline");
  command.add_flag("--dry-run", options.dry_run, "print what would run, and end");
  command.add_flag("--check,!--no-check", options.check, "replay every position against the interpreter (default)");
  command.add_option("--circuit", options.circuit, "circuit file of the local worker");
  command.add_option("--node", options.nodes, "HOST:PORT of a worker, repeatable; default: one is started here");
  command.add_option("--oracle", options.oracle, "HOST:PORT of the oracle; default: one is started here");
  command.add_option("--worker-program", options.worker_program, "program of the local worker");
  command.add_option("--oracle-program", options.oracle_program, "program of the local oracle");
  command.add_option("--native", options.native, "who runs natively in the local oracle; see qgpu-oracle --help")
      ->check(CLI::IsMember({"auto", "native-cuda", "native-cpu", "golden"}));
  command.add_option("--golden", options.golden, "golden file of the local oracle: it answers in place of a device");
  command.add_option("--launch-limit", options.launch_limit_s, "seconds that a launch of the model may take")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  command.add_option("--native-limit", options.native_limit_s, "seconds that a run of the oracle may take")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();
  AddTlsFlags(command, options.tls, options.insecure);
}

}  // namespace qgpu
