// What a run is, as rows: read from the store, turned into every report format and into the headline. One definition of
// "passed" and of every count, so that no two formats of a run can disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "evals/drift/statistics.h"

namespace qgpu {

enum class CaseStatus {
  kPass,         // everything agrees, or the expected trap or refusal came
  kFail,         // a wrong answer: a disagreement, an unexpected trap, an exhausted token budget
  kError,        // refused before it ran: does not compile, does not fit, bad arguments
  kUnsupported,  // refused before it ran: uses something that is not built yet
  kTimeout,      // stopped at the time limit, so that nothing can be concluded
  kCrash,        // the process that ran it died, every time it was tried
  kInfra,        // nothing can be concluded: connection, disk, machine
};
inline constexpr CaseStatus kAllCaseStatuses[] = {CaseStatus::kPass,        CaseStatus::kFail,    CaseStatus::kError,
                                                  CaseStatus::kUnsupported, CaseStatus::kTimeout, CaseStatus::kCrash,
                                                  CaseStatus::kInfra};

const char* CaseStatusName(CaseStatus status);  // "pass", ...
std::optional<CaseStatus> CaseStatusFromName(const std::string& name);

// A figure measured in one attempt. The unit is part of the name wherever it is shown: "decode_ms".
struct Sample {
  std::string metric, unit;
  double value = 0;
  bool operator==(const Sample&) const = default;
};

// First memory word or register that differs. A party that had no part has no value.
struct DifferingWord {
  std::string place;  // "word 17 (byte 68)", "warp 2 lane 1 r5"
  int64_t word = -1;  // index in the memory image, -1 for a register
  std::optional<uint32_t> model, interpreter, native;
  int64_t trace_position = -1;  // token that gave the word its value in the reference trace; -1: never written
  bool operator==(const DifferingWord&) const = default;
};

// First position at which the model wrote another token than the reference.
struct TokenDifference {
  int64_t position = -1;      // counted from 0 over the tokens the model writes
  std::string expected, got;  // as a trace shows them; "end of trace" beyond it
  bool operator==(const TokenDifference&) const = default;
};

// What is known of one launch after judging.
struct LaunchRow {
  int64_t host_tokens = 0, tokens = 0, passes = 0;
  int64_t positions_checked = 0, mismatches = 0;
  std::string end;             // "done", "trap", "budget"
  std::string odd_one_out;     // "model", "interpreter", "native-cpu", ...; empty: all agree
  std::string native_witness;  // empty: none took part
  std::optional<TokenDifference> token_difference;
  std::optional<DifferingWord> word_difference;
  bool operator==(const LaunchRow&) const = default;
};

struct AttemptRow {
  std::string id;
  int number = 1;
  int64_t started_ms = 0, finished_ms = 0;  // Unix time
  CaseStatus status = CaseStatus::kInfra;
  std::string message;
  std::optional<LaunchRow> launch;
  std::vector<Sample> samples;
};

// What was measured of one text through one drift probe, so far: it grows chunk by chunk, over attempts.
struct DriftRow {
  std::string measurement;  // hash of everything the numbers depend on; empty: nothing was measured yet
  std::string token_source, reference, merged;  // how ids were made, and what was compared: "base, float32"
  int64_t positions = 0;                        // of the whole measurement
  TextDrift drift;                              // rows from position 0 on
  TextDrift noise;                              // the base's own, float32 against bfloat16; no rows: not measured
  std::vector<std::string> predicted;           // a text a row: the next token, printable
  bool complete() const { return positions > 0 && std::ssize(drift.rows) == positions; }
};

enum class SuiteKind { kKernels, kDrift };

const char* SuiteKindName(SuiteKind kind);  // "kernels", "drift"
std::optional<SuiteKind> SuiteKindFromName(const std::string& name);

// One (case, worker, repetition) and everything that was tried for it, in order.
struct ItemRow {
  SuiteKind kind = SuiteKind::kKernels;
  // A drift item's `kernel` is the probe's name and its case the text's: "dense-bfloat16/prose".
  std::string suite, kernel, case_name, case_hash, worker;
  int repetition = 1;
  std::optional<CaseStatus> status;  // empty: not finished
  std::vector<AttemptRow> attempts;
  std::optional<DriftRow> drift;  // drift items only
  int64_t id = 0;                 // in the store

  std::string CaseId() const { return kernel + "/" + case_name; }
  const AttemptRow* LastAttempt() const { return attempts.empty() ? nullptr : &attempts.back(); }
};

// A program that took part.
struct NodeRow {
  std::string role, name, address;
  std::string program, version, commit, build_type;
  std::string host, operating_system, processor, accelerator;
  int logical_processors = 0;
  // Workers only.
  std::string circuit_hash, circuit_sha256, base, form;
  int base_hidden = 0, layers = 0, added_width = 0;
  // Oracles only: who runs natively and who does not and why, for the run's manifest; not kept with the node.
  std::vector<std::pair<std::string, std::string>> engines;
  // Workers only: drift probes that they can measure; not kept with the node.
  std::vector<std::string> drift_probes;
};

struct SuiteRow {
  std::string name, hash;
  SuiteKind kind = SuiteKind::kKernels;
  bool operator==(const SuiteRow&) const = default;
};

struct RunRow {
  int64_t id = 0;
  int64_t started_ms = 0, finished_ms = 0;  // 0: not finished
  std::string state;                        // "running", "finished", "interrupted"
  int exit_code = -1;
  bool quick = false;
  int repetitions = 1;
  std::vector<SuiteRow> suites;
  std::vector<std::pair<std::string, std::string>> manifest;  // commits, hashes, flags, in order
  std::vector<std::string> arguments;                         // of run-suite: what a run is taken up with
};

struct RunReport {
  RunRow run;
  std::vector<NodeRow> nodes;
  std::vector<ItemRow> items;
};

// Everything that is counted over a run.
struct Totals {
  int kernels = 0, kernels_passed = 0;  // of kernel suites; a kernel passed when every item of it did
  int items = 0, items_finished = 0;
  int by_status[std::size(kAllCaseStatuses)] = {};
  int64_t tokens = 0, passes = 0, positions_checked = 0, mismatches = 0;  // of last attempts
  double decode_seconds = 0;
  int64_t decoded_tokens = 0;  // of launches whose decoding was timed
  int count(CaseStatus status) const { return by_status[static_cast<int>(status)]; }
};
Totals Count(const RunReport& report);

// Name of the base model that the worker hosts, "not known" where no node says.
std::string BaseOf(const RunReport& report, const std::string& worker);
bool HasItems(const RunReport& report, SuiteKind kind);
// Different ones of the last attempts' launches, in the run's order.
std::vector<std::string> NativeWitnesses(const RunReport& report);

// The four headline figures: what stdout shows, and what the reports show beside the published ones. A figure that the
// run has no item for is "not run".
struct HeadlineFigure {
  std::string name, value;
  std::string measured_on;  // base model and native witness; a figure of one base is not another's. Empty: not run
};
std::vector<HeadlineFigure> Headline(const RunReport& report);

// The exit code a run's items deserve: a wrong answer 1, else anything that makes a conclusion impossible 4 (unfinished
// items and no items included), else a refused item 2, else 0.
ExitCode VerdictExitCode(const RunReport& report);

// "2026-11-30 05:23:33 UTC"
std::string FormatTime(int64_t unix_ms);

}  // namespace qgpu
