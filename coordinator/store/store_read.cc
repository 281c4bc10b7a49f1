// Everything of the store that only reads.
#include "coordinator/store/store.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

constexpr const char* kRunColumns =
    "id, started_ms, finished_ms, state, exit_code, quick, repetitions, manifest, arguments";

RunRow RunFrom(const Statement& row) {
  RunRow run;
  run.id = row.Integer(0);
  run.started_ms = row.Integer(1);
  run.finished_ms = row.Integer(2);
  run.state = row.Text(3);
  run.exit_code = row.IsNull(4) ? -1 : static_cast<int>(row.Integer(4));
  run.quick = row.Integer(5) != 0;
  run.repetitions = static_cast<int>(row.Integer(6));
  const auto manifest = nlohmann::ordered_json::parse(row.Text(7), nullptr, /*allow_exceptions=*/false);
  if (manifest.is_object()) {
    for (const auto& [name, value] : manifest.items()) {
      run.manifest.push_back({name, value.is_string() ? value.get<std::string>() : value.dump()});
    }
  }
  const auto arguments = nlohmann::json::parse(row.Text(8), nullptr, /*allow_exceptions=*/false);
  if (arguments.is_array()) {
    for (const auto& argument : arguments)
      run.arguments.push_back(argument.is_string() ? argument.get<std::string>() : argument.dump());
  }
  return run;
}

SuiteKind KindFrom(const std::string& name) { return SuiteKindFromName(name).value_or(SuiteKind::kKernels); }

std::optional<uint32_t> WordFrom(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return static_cast<uint32_t>(row.Integer(column));
}

// Columns from `first` on are those of the table launch, without attempt_id.
LaunchRow LaunchFrom(const Statement& row, int first) {
  LaunchRow launch;
  launch.host_tokens = row.Integer(first);
  launch.tokens = row.Integer(first + 1);
  launch.passes = row.Integer(first + 2);
  launch.positions_checked = row.Integer(first + 3);
  launch.mismatches = row.Integer(first + 4);
  launch.end = row.Text(first + 5);
  launch.odd_one_out = row.Text(first + 6);
  launch.native_witness = row.Text(first + 7);
  if (!row.IsNull(first + 8)) {
    launch.token_difference = TokenDifference{row.Integer(first + 8), row.Text(first + 9), row.Text(first + 10)};
  }
  if (!row.IsNull(first + 11)) {
    launch.word_difference =
        DifferingWord{row.Text(first + 11),      row.Integer(first + 12),   WordFrom(row, first + 13),
                      WordFrom(row, first + 14), WordFrom(row, first + 15), row.Integer(first + 16)};
  }
  return launch;
}

}  // namespace

absl::Status Store::ReadSuites(RunRow& run) {
  QGPU_ASSIGN_OR_RETURN(Statement rows,
                        database_->Prepare("SELECT s.name, s.hash, s.kind FROM run_suite r JOIN suite s ON "
                                           "s.id = r.suite_id WHERE r.run_id = ? ORDER BY r.rowid"));
  rows.Bind(run.id);
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    run.suites.push_back({rows.Text(0), rows.Text(1), KindFrom(rows.Text(2))});
  }
}

absl::Status Store::ReadNodes(RunReport& report) {
  QGPU_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare(
          "SELECT n.role, n.name, n.address, b.program, b.version, b.commit_hash, b.build_type, m.name, "
          "m.operating_system, m.processor, m.accelerator, m.logical_processors, d.circuit_hash, d.circuit_sha256, "
          "d.base, d.form, d.base_hidden, d.layers, d.added_width FROM node n JOIN build b ON b.id = n.build_id "
          "JOIN machine m ON m.id = n.machine_id LEFT JOIN model d ON d.id = n.model_id WHERE n.run_id = ? "
          "ORDER BY n.id"));
  rows.Bind(report.run.id);
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    NodeRow node;
    std::string* texts[] = {&node.role,       &node.name,       &node.address, &node.program,          &node.version,
                            &node.commit,     &node.build_type, &node.host,    &node.operating_system, &node.processor,
                            &node.accelerator};
    for (int i = 0; i < 11; ++i) *texts[i] = rows.Text(i);
    node.logical_processors = static_cast<int>(rows.Integer(11));
    node.circuit_hash = rows.Text(12);
    node.circuit_sha256 = rows.Text(13);
    node.base = rows.Text(14);
    node.form = rows.Text(15);
    node.base_hidden = static_cast<int>(rows.Integer(16));
    node.layers = static_cast<int>(rows.Integer(17));
    node.added_width = static_cast<int>(rows.Integer(18));
    report.nodes.push_back(node);
  }
}

absl::Status Store::ReadSamples(AttemptRow& attempt) {
  QGPU_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare("SELECT metric, unit, value FROM sample WHERE attempt_id = ? ORDER BY metric"));
  rows.Bind(attempt.id);
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    attempt.samples.push_back({rows.Text(0), rows.Text(1), rows.Real(2)});
  }
}

absl::Status Store::ReadItems(RunReport& report) {
  QGPU_ASSIGN_OR_RETURN(
      Statement rows,
      database_->Prepare(
          "SELECT i.id, s.name, c.kernel, c.name, c.hash, n.name, i.repetition, i.status, a.id, a.number, "
          "a.started_ms, "
          "a.finished_ms, a.status, a.message, l.host_tokens, l.tokens, l.passes, l.positions_checked, l.mismatches, "
          "l.end_kind, l.odd_one_out, l.native_witness, l.token_position, l.token_expected, l.token_got, l.word_place, "
          "l.word_index, l.word_model, l.word_interpreter, l.word_native, l.word_position, s.kind "
          "FROM item i JOIN suite_case c ON c.id = i.case_id JOIN suite s ON s.id = c.suite_id "
          "JOIN node n ON n.id = i.node_id LEFT JOIN attempt a ON a.item_id = i.id "
          "LEFT JOIN launch l ON l.attempt_id = a.id WHERE i.run_id = ? ORDER BY i.id, a.number"));
  rows.Bind(report.run.id);
  int64_t previous_id = -1;
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    if (rows.Integer(0) != previous_id) {
      previous_id = rows.Integer(0);
      ItemRow& item = report.items.emplace_back();
      item.id = previous_id;
      item.kind = KindFrom(rows.Text(31));
      item.suite = rows.Text(1);
      item.kernel = rows.Text(2);
      item.case_name = rows.Text(3);
      item.case_hash = rows.Text(4);
      item.worker = rows.Text(5);
      item.repetition = static_cast<int>(rows.Integer(6));
      if (!rows.IsNull(7)) item.status = CaseStatusFromName(rows.Text(7)).value_or(CaseStatus::kInfra);
      if (item.kind == SuiteKind::kDrift) {
        QGPU_ASSIGN_OR_RETURN(item.drift, ReadDrift(item.id));
      }
    }
    if (rows.IsNull(8)) continue;
    AttemptRow& attempt = report.items.back().attempts.emplace_back();
    attempt.id = rows.Text(8);
    attempt.number = static_cast<int>(rows.Integer(9));
    attempt.started_ms = rows.Integer(10);
    attempt.finished_ms = rows.Integer(11);
    attempt.status = CaseStatusFromName(rows.Text(12)).value_or(CaseStatus::kInfra);
    attempt.message = rows.Text(13);
    if (!rows.IsNull(14)) attempt.launch = LaunchFrom(rows, 14);
    QGPU_RETURN_IF_ERROR(ReadSamples(attempt));
  }
}

absl::StatusOr<RunReport> Store::ReadRun(int64_t run_id) {
  QGPU_ASSIGN_OR_RETURN(Statement row, database_->Prepare(fmt::format("SELECT {} FROM run WHERE id = ?", kRunColumns)));
  QGPU_ASSIGN_OR_RETURN(const bool found, row.Bind(run_id).Step());
  if (!found) return absl::NotFoundError(fmt::format("database {} has no run {}", database_->path(), run_id));
  RunReport report;
  report.run = RunFrom(row);
  QGPU_RETURN_IF_ERROR(ReadSuites(report.run));
  QGPU_RETURN_IF_ERROR(ReadNodes(report));
  QGPU_RETURN_IF_ERROR(ReadItems(report));
  return report;
}

absl::StatusOr<std::vector<RunRow>> Store::ListRuns() {
  QGPU_ASSIGN_OR_RETURN(Statement rows,
                        database_->Prepare(fmt::format("SELECT {} FROM run ORDER BY id DESC", kRunColumns)));
  std::vector<RunRow> runs;
  while (true) {
    QGPU_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) break;
    runs.push_back(RunFrom(rows));
  }
  for (RunRow& run : runs) QGPU_RETURN_IF_ERROR(ReadSuites(run));
  return runs;
}

absl::StatusOr<int64_t> Store::NewestRun() {
  QGPU_ASSIGN_OR_RETURN(Statement row, database_->Prepare("SELECT max(id) FROM run"));
  QGPU_RETURN_IF_ERROR(row.Step().status());
  if (row.IsNull(0)) return absl::NotFoundError(fmt::format("database {} has no runs yet", database_->path()));
  return row.Integer(0);
}

}  // namespace qgpu
