// The store: every run, with everything that was measured and decided, in one SQLite file. The only place with SQL; the
// coordinator is its only writer. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "coordinator/store/database.h"
#include "coordinator/store/run_lock.h"
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

  // A new run in the state "running", with its suites, manifest and arguments, claimed by this store. Returns its id.
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

  // Makes this store the one that runs `run_id`, until FinishRun or its end, however that comes. kFailedPrecondition:
  // it is being run by somebody.
  absl::Status ClaimRun(int64_t run_id);
  // A claimed run goes on: in the state "running" again, with `note` added to the manifest's "taken up".
  absl::Status TakeUpRun(int64_t run_id, const std::string& note);

  // The drift measurement of an item: begun anew (what was there is dropped), rows added behind those there are, only
  // those before `position` kept. On the disk when these return OK. `noise` and `predicted` have an entry a row; no
  // noise: not measured.
  absl::Status BeginDrift(int64_t item_id, const DriftRow& measurement);
  absl::Status AppendDrift(int64_t item_id, int64_t first_position, std::span<const RowDrift> rows,
                           std::span<const RowDrift> noise, std::span<const std::string> predicted);
  absl::Status CutDrift(int64_t item_id, int64_t position);
  // Empty: none was begun.
  absl::StatusOr<std::optional<DriftRow>> ReadDrift(int64_t item_id);

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
  absl::StatusOr<int64_t> SuiteId(const SuiteRow& suite);
  absl::Status WriteLaunch(const AttemptRow& attempt);
  absl::Status ReadSuites(RunRow& run);
  absl::Status ReadNodes(RunReport& report);
  absl::Status ReadItems(RunReport& report);
  absl::Status ReadSamples(AttemptRow& attempt);
  absl::Status ReadDriftRows(int64_t item_id, DriftRow& row);

  std::unique_ptr<Database> database_;
  std::optional<RunLock> lock_;
};

}  // namespace qgpu
