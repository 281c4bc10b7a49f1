// The store: every run, with everything that was measured and decided, in one SQLite file. The only place with SQL; the
// coordinator is its only writer. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "coordinator/store/database.h"
#include "reports/rows.h"

namespace qgpu {

struct StoredCase {
  std::string suite, kernel, name, hash;
};

class Store {
 public:
  // Opens `path`, makes it if there is none, and brings an older schema up to date. kFailedPrecondition for a newer
  // schema or another program's database, kInvalidArgument for a file that is none; nothing is changed then.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);

  // A new run in the state "running", with its suites and manifest. Returns its id.
  absl::StatusOr<int64_t> BeginRun(const RunRow& run);
  // A program that takes part. Returns the node's id.
  absl::StatusOr<int64_t> AddNode(int64_t run_id, const NodeRow& node);

  // One item of a run: `cases` and `nodes` as given before, by index and id. Returns the ids in order.
  struct NewItem {
    int case_index = 0;
    int64_t node_id = 0;
    int repetition = 1;
  };
  absl::StatusOr<std::vector<int64_t>> AddItems(int64_t run_id, const RunRow& run, const std::vector<StoredCase>& cases,
                                                const std::vector<NewItem>& items);

  // What one attempt led to, and the item's status if that settles it. On the disk when this returns OK; an attempt id
  // that is there already changes nothing.
  absl::Status RecordAttempt(int64_t item_id, const AttemptRow& attempt, std::optional<CaseStatus> settled);

  // Ends a run: "finished" or "interrupted".
  absl::Status FinishRun(int64_t run_id, const std::string& state, int exit_code, int64_t finished_ms);

  // Everything about a run. kNotFound naming the id.
  absl::StatusOr<RunReport> ReadRun(int64_t run_id);
  // Without items, newest first.
  absl::StatusOr<std::vector<RunRow>> ListRuns();
  // The newest run's id. kNotFound if there is none.
  absl::StatusOr<int64_t> NewestRun();

 private:
  explicit Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  absl::Status Migrate();
  absl::StatusOr<int64_t> SuiteId(const std::string& name, const std::string& hash);
  absl::Status WriteLaunch(const AttemptRow& attempt);
  absl::Status ReadSuites(RunRow& run);
  absl::Status ReadNodes(RunReport& report);
  absl::Status ReadItems(RunReport& report);
  absl::Status ReadSamples(AttemptRow& attempt);

  std::unique_ptr<Database> database_;
};

}  // namespace qgpu
