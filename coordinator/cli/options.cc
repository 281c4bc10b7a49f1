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
  command.add_option("suites", options.suites, "drift, names of embedded kernel suites, or suite files (*.json)")
      ->capture_default_str();
  command.add_option("--db", options.database, "database")->capture_default_str();
  command.add_option("--report", options.reports,
                     "FORMAT=PATH, repeatable, in the place of the default: html=report.html and csv=report.csv");
  command.add_option("--filter", options.filter,
                     "glob over kernel/case or probe/text, or over kernel or probe: only what matches");
  command.add_option("--case-list", options.case_list, "file with one kernel/case or probe/text a line: only these");
  command.add_option("--repetitions", options.repetitions, "how often each case runs on each worker")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_flag("--quick", options.quick, "the first case of every kernel and probe; not fit as a baseline");
  command.add_flag("--dry-run", options.dry_run, "print what would run, and end");
  command.add_flag("--check,!--no-check", options.check, "replay every position against the interpreter (default)");
  command
      .add_option("--resume", options.resume,
                  "go on with this run of the database, which was interrupted or killed, as it was started")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--drift-probes", options.drift_probes,
                  "default, all, or names: split-float32, dense-bfloat16, dense-float32-after-launch, ...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--drift-texts", options.drift_texts, "all, prose, code, chat, numbers, trigger, or files")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--drift-positions", options.drift_positions, "positions of each text, from its beginning; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 22))
      ->capture_default_str();
  command.add_option("--drift-chunk", options.drift_chunk, "positions fed at once, and lost at most when stopped")
      ->check(CLI::Range(1, 2048))
      ->capture_default_str();
  command.add_option("--drift-limit", options.drift_limit_s, "seconds that one text through one probe may take")
      ->check(CLI::Range(1, 604'800))
      ->capture_default_str();
  command.add_option("--circuit", options.circuit, "circuit file of the local worker");
  command.add_option("--base", options.base, "folder of the local worker's base model; default: the embedded one");
  command.add_option("--executor", options.executor, "the local worker's: sparse, torch");
  command.add_option("--form", options.form, "the local worker's: split, dense");
  command.add_option("--dtype", options.data_type, "the local worker's: float32, bfloat16");
  command.add_option("--device", options.device, "the local worker's: cpu, cuda, mps");
  command.add_option("--node", options.nodes, "HOST:PORT of a worker, repeatable; default: one is started here")
      ->allow_extra_args(false);
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

absl::Status ParseRunSuiteArguments(const std::vector<std::string>& arguments, RunSuiteOptions& options) {
  CLI::App app{"", "run-suite"};
  AddRunSuiteOptions(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes the last one first
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", fmt::join(arguments, " "), error.what()));
  }
  return absl::OkStatus();
}

}  // namespace qgpu
