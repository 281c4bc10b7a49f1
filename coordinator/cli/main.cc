// qgpu-coordinator: plans a suite, hands it to workers, asks the oracle, judges, stores, reports.
#include <algorithm>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/command_line.h"
#include "common/version.h"
#include "coordinator/cli/commands.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  CLI::App app{"qgpu-coordinator: runs suites on workers, judges, stores and reports."};
  app.set_version_flag("--version", [] { return VersionText("qgpu-coordinator", DefaultCircuitPath()); });
  app.require_subcommand(1);
  const std::vector<std::string> after_command(argv + std::min(argc, 2), argv + argc);

  RunSuiteOptions run_options;
  CLI::App* run_suite = app.add_subcommand("run-suite", "run suites, judge, store and report");
  AddRunSuiteOptions(*run_suite, run_options);

  std::string database = "qgpu.db", format = "html", output;
  int64_t run_id = 0;
  const auto add_database = [&database](CLI::App* command) {
    command->add_option("--db", database, "database")->capture_default_str();
  };
  CLI::App* runs = app.add_subcommand("runs", "what the database holds")->require_subcommand(1);
  CLI::App* list = runs->add_subcommand("list", "all runs, newest first: id, start, suites, state, exit code");
  add_database(list);
  CLI::App* show = runs->add_subcommand("show", "one run, item by item");
  show->add_option("run", run_id, "its id; default: the newest");
  add_database(show);
  CLI::App* report = app.add_subcommand("report", "the report of a run");
  report->add_option("run", run_id, "its id; default: the newest");
  report->add_option("--format", format, "html, csv or drift-csv")
      ->check(CLI::IsMember(ReportFormats()))
      ->capture_default_str();
  report->add_option("--output", output, "file; default: standard output");
  add_database(report);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOfParse("qgpu-coordinator", app, error);
  }
  if (run_suite->parsed()) return RunSuiteCommand(run_options, after_command);
  if (list->parsed()) return ListRunsCommand(database);
  if (show->parsed()) return ShowRunCommand(database, run_id);
  return ReportCommand(database, run_id, format, output);
}
