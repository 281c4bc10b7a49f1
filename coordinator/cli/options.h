// What a person can ask the coordinator for, checked as far as that is possible before anything runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/status.h"
#include "proto/address.h"

namespace qgpu {

struct ReportTarget {
  std::string format, path;
};

struct RunSuiteOptions {
  std::vector<std::string> suites = {"kernels", "drift"};
  std::string database = "qgpu.db";
  std::vector<std::string> reports;  // FORMAT=PATH; none: report.html and report.csv
  std::string filter;                // glob over "kernel/case" or "kernel", "probe/text" or "probe"; empty: all
  std::string case_list;             // file with one of these ids a line; empty: everything
  int repetitions = 1;
  bool quick = false;    // the first case of every kernel and probe
  bool dry_run = false;  // prints what would run
  bool check = true;
  int64_t resume = 0;  // a run of the database to go on with; 0: a new one
  // The suite "drift".
  std::vector<std::string> drift_probes = {"default"}, drift_texts = {"all"};
  int64_t drift_positions = 128, drift_chunk = 64;
  int drift_limit_s = 3600;
  std::string circuit, base, executor, form, data_type, device;  // of the local worker; empty: its defaults
  std::vector<std::string> nodes;                                // HOST:PORT; none: a local worker
  std::string oracle;                                            // HOST:PORT; empty: a local one
  std::string worker_program, oracle_program;                    // of the local ones; empty: those beside this program
  std::string native, golden;  // of the local oracle: its --native and --golden; empty: its defaults
  int launch_limit_s = 120, native_limit_s = 20;
  TlsFiles tls;
  bool insecure = false;
};

void AddRunSuiteOptions(CLI::App& command, RunSuiteOptions& options);

// Takes the arguments of a run-suite into `options`; what they do not give stays as it is. kInvalidArgument as the
// command line's parser says.
absl::Status ParseRunSuiteArguments(const std::vector<std::string>& arguments, RunSuiteOptions& options);

// "html=report.html"; kInvalidArgument naming the formats there are.
absl::StatusOr<ReportTarget> ParseReportTarget(const std::string& text);
// "html", "csv", "drift-csv".
const std::vector<std::string>& ReportFormats();

}  // namespace qgpu
