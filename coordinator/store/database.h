// A thin layer over SQLite: statements that bind and read by position, and errors as Status.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace qgpu {

class Database;

// A prepared statement. Errors while binding are kept and returned by Step.
class Statement {
 public:
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value);
  Statement& Bind(const std::string& value);
  Statement& Bind(double value);
  Statement& BindNull();
  template <typename T>
  Statement& Bind(const std::optional<T>& value) {
    return value.has_value() ? Bind(*value) : BindNull();
  }
  Statement& Bind(int value) { return Bind(static_cast<int64_t>(value)); }
  Statement& Bind(uint32_t value) { return Bind(static_cast<int64_t>(value)); }
  Statement& Bind(bool value) { return Bind(static_cast<int64_t>(value ? 1 : 0)); }
  Statement& Bind(const char* value) { return Bind(std::string(value)); }

  // True: a row can be read. False: there is none (left).
  absl::StatusOr<bool> Step();
  // For statements that return no rows.
  absl::Status Run();

  int64_t Integer(int column) const;
  std::optional<int64_t> OptionalInteger(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  bool IsNull(int column) const;

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}

  Database* database_;
  sqlite3_stmt* statement_;
  int next_ = 1;
  int bind_error_ = 0;
};

class Database {
 public:
  // Opens or makes the file. kNotFound, kPermissionDenied, kUnavailable naming the path.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();

  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql);
  int64_t LastInsertId() const;
  const std::string& path() const { return path_; }

  // The last error as a Status: kInvalidArgument for a file that is no database, kResourceExhausted for a full disk,
  // kPermissionDenied for a read-only one, kUnavailable for a lock that is not given up, kInternal otherwise.
  absl::Status Error(const std::string& what) const;

 private:
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  sqlite3* handle_;
};

// Commits only when told to; rolls back otherwise.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(other.database_) { other.database_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  // When it returns OK the changes are on the disk.
  absl::Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace qgpu
