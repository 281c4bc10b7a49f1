#include "coordinator/store/database.h"

#include <sqlite3.h>

#include <utility>

namespace qgpu {

constexpr int kBusyTimeoutMs = 10'000;

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      next_(other.next_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::Bind(int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, next_++, value); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::Bind(double value) {
  if (const int code = sqlite3_bind_double(statement_, next_++, value); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::Bind(const std::string& value) {
  const int code = sqlite3_bind_text64(statement_, next_++, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::BindNull() {
  if (const int code = sqlite3_bind_null(statement_, next_++); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return database_->Error("cannot bind a value");
  switch (sqlite3_step(statement_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_->Error("cannot read or write");
  }
}

absl::Status Statement::Run() { return Step().status(); }

int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<int64_t> Statement::OptionalInteger(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Integer(column);
}

double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<Database> database(new Database(path, handle));
  if (code != SQLITE_OK) {
    return absl::FailedPreconditionError(fmt::format("cannot open the database {}: {}", path,
                                                     handle == nullptr ? "out of memory" : sqlite3_errmsg(handle)));
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return database;
}

Database::~Database() { sqlite3_close(handle_); }

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return Error("cannot read or write");
  return absl::OkStatus();
}

absl::StatusOr<Statement> Database::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK) {
    return Error("cannot prepare a statement");
  }
  return Statement(this, statement);
}

int64_t Database::LastInsertId() const { return sqlite3_last_insert_rowid(handle_); }

absl::Status Database::Error(const std::string& what) const {
  const std::string message = fmt::format("database {}: {}: {}", path_, what, sqlite3_errmsg(handle_));
  switch (sqlite3_errcode(handle_) & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return absl::InvalidArgumentError(message);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::PermissionDeniedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<Transaction> Transaction::Begin(Database& database) {
  QGPU_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) database_->Execute("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Commit() {
  QGPU_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace qgpu
