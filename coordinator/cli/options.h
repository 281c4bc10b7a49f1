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
  std::vector<std::string> suites = {"kernels"};
  std::string database = "qgpu.db";
  std::vector<std::string> reports;  // FORMAT=PATH; none: report.html and report.csv
  std::string filter;                // glob over "kernel/case" or "kernel"; empty: everything
  std::string case_list;             // file with one "kernel/case" a line; empty: everything
  int repetitions = 1;
  bool quick = false;    // the first case of every kernel
  bool dry_run = false;  // prints what would run
  bool check = true;
  std::string circuit;                         // of the local worker; empty: its default
  std::vector<std::string> nodes;              // HOST:PORT; none: a local worker
  std::string oracle;                          // HOST:PORT; empty: a local one
  std::string worker_program, oracle_program;  // of the local ones; empty: those beside this program
  std::string native, golden;                  // of the local oracle: its --native and --golden; empty: its defaults
  int launch_limit_s = 120, native_limit_s = 20;
  TlsFiles tls;
  bool insecure = false;
};

void AddRunSuiteOptions(CLI::App& command, RunSuiteOptions& options);

// "html=report.html"; kInvalidArgument naming the formats there are.
absl::StatusOr<ReportTarget> ParseReportTarget(const std::string& text);
// The format's text for a report: "html", "csv".
const std::vector<std::string>& ReportFormats();

}  // namespace qgpu
