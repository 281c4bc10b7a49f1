// Opening, migration and everything that writes; store_read.cc reads.
#include "coordinator/store/store.h"

#include <map>

#include "common/json_text.h"
#include "coordinator/store/schema.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

// The id of the row whose columns are these, inserted if it is new. `columns` are all of its UNIQUE key.
template <typename... Values>
absl::StatusOr<int64_t> FindOrInsert(Database& database, const std::string& table, const std::string& columns,
                                     const Values&... values) {
  std::string conditions, marks;
  for (size_t start = 0; start < columns.size();) {
    const size_t comma = std::min(columns.find(", ", start), columns.size());
    conditions += (conditions.empty() ? "" : " AND ") + columns.substr(start, comma - start) + " = ?";
    marks += marks.empty() ? "?" : ", ?";
    start = comma + 2;
  }
  QGPU_ASSIGN_OR_RETURN(Statement find, database.Prepare(fmt::format("SELECT id FROM {} WHERE {}", table, conditions)));
  (find.Bind(values), ...);
  QGPU_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (found) return find.Integer(0);
  QGPU_ASSIGN_OR_RETURN(Statement insert,
                        database.Prepare(fmt::format("INSERT INTO {} ({}) VALUES ({})", table, columns, marks)));
  (insert.Bind(values), ...);
  QGPU_RETURN_IF_ERROR(insert.Run());
  return database.LastInsertId();
}

// The single number that a query returns.
absl::StatusOr<int64_t> Number(Database& database, const std::string& sql) {
  QGPU_ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  QGPU_RETURN_IF_ERROR(statement.Step().status());
  return statement.Integer(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(auto database, Database::Open(path));
  std::unique_ptr<Store> store(new Store(std::move(database)));
  QGPU_RETURN_IF_ERROR(store->Migrate());
  return store;
}

absl::Status Store::Migrate() {
  Database& database = *database_;
  const int64_t known = static_cast<int64_t>(SchemaSteps().size());
  // Nothing is written before the file is known to be ours and not newer.
  QGPU_ASSIGN_OR_RETURN(int64_t version, Number(database, "PRAGMA user_version"));
  QGPU_ASSIGN_OR_RETURN(const int64_t application, Number(database, "PRAGMA application_id"));
  QGPU_ASSIGN_OR_RETURN(const int64_t tables, Number(database, "SELECT count(*) FROM sqlite_master"));
  if (application != kApplicationId && !(tables == 0 && application == 0)) {
    return absl::FailedPreconditionError(
        fmt::format("database {} belongs to another program; give another --db", database.path()));
  }
  if (version > known) {
    return absl::FailedPreconditionError(
        fmt::format("database {} has schema version {}, this program knows versions up to {}; use the newer program, "
                    "or another --db",
                    database.path(), version, known));
  }
  QGPU_RETURN_IF_ERROR(database.Execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF"));
  if (version == known) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  QGPU_ASSIGN_OR_RETURN(version, Number(database, "PRAGMA user_version"));  // another program may have been first
  for (; version < known; ++version) QGPU_RETURN_IF_ERROR(database.Execute(SchemaSteps()[version]));
  QGPU_RETURN_IF_ERROR(
      database.Execute(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}", known, kApplicationId)));
  return transaction.Commit();
}

absl::StatusOr<int64_t> Store::SuiteId(const SuiteRow& suite) {
  return FindOrInsert(*database_, "suite", "name, hash, kind", suite.name, suite.hash, SuiteKindName(suite.kind));
}

absl::StatusOr<int64_t> Store::BeginRun(const RunRow& run) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  nlohmann::ordered_json manifest = nlohmann::ordered_json::object();
  for (const auto& [name, value] : run.manifest) manifest[name] = value;
  QGPU_ASSIGN_OR_RETURN(Statement insert,
                        database_->Prepare("INSERT INTO run (started_ms, state, quick, repetitions, manifest, "
                                           "arguments) VALUES (?, 'running', ?, ?, ?, ?)"));
  insert.Bind(run.started_ms).Bind(run.quick).Bind(run.repetitions);
  insert.Bind(JsonText(manifest)).Bind(JsonText(nlohmann::ordered_json(run.arguments)));
  QGPU_RETURN_IF_ERROR(insert.Run());
  const int64_t run_id = database_->LastInsertId();
  QGPU_RETURN_IF_ERROR(ClaimRun(run_id));  // before anybody else can see it
  for (const SuiteRow& suite : run.suites) {
    QGPU_ASSIGN_OR_RETURN(const int64_t suite_id, SuiteId(suite));
    QGPU_ASSIGN_OR_RETURN(Statement link, database_->Prepare("INSERT INTO run_suite (run_id, suite_id) VALUES (?, ?)"));
    QGPU_RETURN_IF_ERROR(link.Bind(run_id).Bind(suite_id).Run());
  }
  QGPU_RETURN_IF_ERROR(transaction.Commit());
  return run_id;
}

absl::StatusOr<int64_t> Store::AddNode(int64_t run_id, const NodeRow& node) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  QGPU_ASSIGN_OR_RETURN(
      const int64_t machine_id,
      FindOrInsert(*database_, "machine", "name, operating_system, processor, logical_processors, accelerator",
                   node.host, node.operating_system, node.processor, node.logical_processors, node.accelerator));
  QGPU_ASSIGN_OR_RETURN(const int64_t build_id,
                        FindOrInsert(*database_, "build", "program, version, commit_hash, build_type", node.program,
                                     node.version, node.commit, node.build_type));
  std::optional<int64_t> model_id;
  if (node.role == "worker") {
    QGPU_ASSIGN_OR_RETURN(
        model_id,
        FindOrInsert(*database_, "model", "circuit_sha256, circuit_hash, base, base_hidden, layers, added_width, form",
                     node.circuit_sha256, node.circuit_hash, node.base, node.base_hidden, node.layers, node.added_width,
                     node.form));
  }
  QGPU_ASSIGN_OR_RETURN(Statement insert,
                        database_->Prepare("INSERT INTO node (run_id, role, name, address, machine_id, build_id, "
                                           "model_id) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(run_id).Bind(node.role).Bind(node.name).Bind(node.address).Bind(machine_id).Bind(build_id);
  QGPU_RETURN_IF_ERROR(insert.Bind(model_id).Run());
  const int64_t node_id = database_->LastInsertId();
  QGPU_RETURN_IF_ERROR(transaction.Commit());
  return node_id;
}

absl::StatusOr<std::vector<int64_t>> Store::AddItems(int64_t run_id, const RunRow& run,
                                                     const std::vector<StoredCase>& cases,
                                                     const std::vector<NewItem>& items) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  std::map<std::string, int64_t> suite_ids;
  for (const SuiteRow& suite : run.suites) {
    QGPU_ASSIGN_OR_RETURN(suite_ids[suite.name], SuiteId(suite));
  }
  std::vector<int64_t> case_ids, item_ids;
  for (const StoredCase& stored : cases) {
    QGPU_ASSIGN_OR_RETURN(const int64_t case_id,
                          FindOrInsert(*database_, "suite_case", "suite_id, kernel, name, hash",
                                       suite_ids.at(stored.suite), stored.kernel, stored.name, stored.hash));
    case_ids.push_back(case_id);
  }
  for (const NewItem& item : items) {
    QGPU_ASSIGN_OR_RETURN(Statement insert,
                          database_->Prepare("INSERT INTO item (run_id, case_id, node_id, repetition) VALUES "
                                             "(?, ?, ?, ?)"));
    insert.Bind(run_id).Bind(case_ids.at(item.case_index)).Bind(item.node_id).Bind(item.repetition);
    QGPU_RETURN_IF_ERROR(insert.Run());
    item_ids.push_back(database_->LastInsertId());
  }
  QGPU_RETURN_IF_ERROR(transaction.Commit());
  return item_ids;
}

absl::Status Store::WriteLaunch(const AttemptRow& attempt) {
  const LaunchRow& launch = *attempt.launch;
  QGPU_ASSIGN_OR_RETURN(
      Statement insert,
      database_->Prepare("INSERT INTO launch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(attempt.id).Bind(launch.host_tokens).Bind(launch.tokens).Bind(launch.passes);
  insert.Bind(launch.positions_checked).Bind(launch.mismatches);
  insert.Bind(launch.end).Bind(launch.odd_one_out).Bind(launch.native_witness);
  if (const auto& token = launch.token_difference; token.has_value()) {
    insert.Bind(token->position).Bind(token->expected).Bind(token->got);
  } else {
    insert.BindNull().BindNull().BindNull();
  }
  if (const auto& word = launch.word_difference; word.has_value()) {
    insert.Bind(word->place).Bind(word->word).Bind(word->model).Bind(word->interpreter).Bind(word->native);
    insert.Bind(word->trace_position);
  } else {
    insert.BindNull().BindNull().BindNull().BindNull().BindNull().BindNull();
  }
  return insert.Run();
}

absl::Status Store::RecordAttempt(int64_t item_id, const AttemptRow& attempt, std::optional<CaseStatus> settled) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  QGPU_ASSIGN_OR_RETURN(Statement known, database_->Prepare("SELECT 1 FROM attempt WHERE id = ?"));
  QGPU_ASSIGN_OR_RETURN(const bool is_late_copy, known.Bind(attempt.id).Step());
  if (is_late_copy) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(Statement insert, database_->Prepare("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(attempt.id).Bind(item_id).Bind(attempt.number).Bind(attempt.started_ms).Bind(attempt.finished_ms);
  QGPU_RETURN_IF_ERROR(insert.Bind(CaseStatusName(attempt.status)).Bind(attempt.message).Run());
  if (attempt.launch.has_value()) QGPU_RETURN_IF_ERROR(WriteLaunch(attempt));
  for (const Sample& sample : attempt.samples) {
    QGPU_ASSIGN_OR_RETURN(Statement row, database_->Prepare("INSERT INTO sample VALUES (?, ?, ?, ?)"));
    row.Bind(attempt.id).Bind(sample.metric).Bind(sample.unit).Bind(sample.value);
    QGPU_RETURN_IF_ERROR(row.Run());
  }
  if (settled.has_value()) {
    QGPU_ASSIGN_OR_RETURN(Statement update, database_->Prepare("UPDATE item SET status = ? WHERE id = ?"));
    QGPU_RETURN_IF_ERROR(update.Bind(CaseStatusName(*settled)).Bind(item_id).Run());
  }
  return transaction.Commit();
}

absl::Status Store::FinishRun(int64_t run_id, const std::string& state, int exit_code, int64_t finished_ms) {
  QGPU_ASSIGN_OR_RETURN(Statement update,
                        database_->Prepare("UPDATE run SET state = ?, exit_code = ?, finished_ms = ? WHERE id = ?"));
  QGPU_RETURN_IF_ERROR(update.Bind(state).Bind(exit_code).Bind(finished_ms).Bind(run_id).Run());
  lock_.reset();
  return absl::OkStatus();
}

absl::Status Store::ClaimRun(int64_t run_id) {
  lock_.reset();
  QGPU_ASSIGN_OR_RETURN(lock_, RunLock::Take(database_->path(), run_id));
  return absl::OkStatus();
}

absl::Status Store::TakeUpRun(int64_t run_id, const std::string& note) {
  QGPU_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  QGPU_ASSIGN_OR_RETURN(Statement read, database_->Prepare("SELECT manifest FROM run WHERE id = ?"));
  QGPU_ASSIGN_OR_RETURN(const bool found, read.Bind(run_id).Step());
  if (!found) return absl::NotFoundError(fmt::format("database {} has no run {}", database_->path(), run_id));
  auto manifest = nlohmann::ordered_json::parse(read.Text(0), nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) manifest = nlohmann::ordered_json::object();
  constexpr const char* kKey = "taken up";
  const std::string before = manifest.contains(kKey) && manifest[kKey].is_string() ? manifest[kKey] : "";
  manifest[kKey] = before.empty() ? note : before + ", " + note;
  QGPU_ASSIGN_OR_RETURN(Statement update,
                        database_->Prepare("UPDATE run SET state = 'running', exit_code = NULL, finished_ms = NULL, "
                                           "manifest = ? WHERE id = ?"));
  QGPU_RETURN_IF_ERROR(update.Bind(JsonText(manifest)).Bind(run_id).Run());
  return transaction.Commit();
}

}  // namespace qgpu
