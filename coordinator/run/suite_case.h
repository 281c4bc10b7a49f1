// A case of any kind of suite, as a run sees it: it has a name, is prepared once, and is then tried on workers. The
// kinds: kernel_case.h, drift_case.h.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/run/parties.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "reports/rows.h"

namespace qgpu {

struct CaseName {
  SuiteKind kind = SuiteKind::kKernels;
  std::string suite;
  std::string group;  // kernel, or drift probe
  std::string name;   // unique within (suite, group)
  std::string hash;   // of everything that is asked
  std::string Id() const { return group + "/" + name; }
  bool operator==(const CaseName&) const = default;
};

struct AttemptOutcome {
  CaseStatus status = CaseStatus::kInfra;
  bool is_infrastructure = false;  // may be tried again
  std::string message;
  std::optional<LaunchRow> launch;
  std::vector<Sample> samples;
};

// What an item keeps on the disk while it is worked on, so that a later attempt goes on where an earlier one ended.
// What is written is durable when the call returns OK. An error means that the attempt must end: the store failed, or
// the item has been given to another attempt.
class ItemJournal {
 public:
  virtual ~ItemJournal() = default;
  virtual absl::StatusOr<std::optional<DriftRow>> ReadDrift() = 0;
  // A new measurement, no rows yet; what was there is dropped.
  virtual absl::Status BeginDrift(const DriftRow& measurement) = 0;
  // Keeps the rows before `position`.
  virtual absl::Status CutDrift(int64_t position) = 0;
  // Rows that follow those there are.
  virtual absl::Status AppendDrift(const DriftChunk& chunk) = 0;
};

// What preparing may use. `stop`: the run ends.
struct CaseTools {
  PtxCache& ptx_cache;
  OracleClient& oracle;
  std::stop_token stop;
};

// One attempt's worker, what is known of it, and the item's journal.
struct WorkerTurn {
  WorkerClient& worker;
  const NodeRow& node;
  ItemJournal& journal;
  std::stop_token stop;
};

class PreparedCase {
 public:
  virtual ~PreparedCase() = default;
  // Asks the worker, judges. Thread safe.
  virtual AttemptOutcome Attempt(const WorkerTurn& turn) const = 0;
};

class SuiteCase {
 public:
  explicit SuiteCase(CaseName name) : name_(std::move(name)) {}
  virtual ~SuiteCase() = default;

  const CaseName& name() const { return name_; }
  // An attempt ends by itself after so long.
  virtual int64_t attempt_limit_ms() const = 0;
  // Everything that needs no worker. Infrastructure failures come back as an error, to be retried; kFailedPrecondition
  // where a machine lacks what it takes.
  virtual absl::StatusOr<std::shared_ptr<const PreparedCase>> Prepare(const CaseTools& tools) const = 0;

 private:
  CaseName name_;
};

// How a case ends whatever any worker does.
struct Settled {
  CaseStatus status = CaseStatus::kInfra;
  std::string message;
};
// A case whose every attempt ends like this, without a worker.
std::shared_ptr<const PreparedCase> SettledCase(const Settled& settled);

// What a call that failed on `worker` means for its item.
AttemptOutcome FailedCall(const absl::Status& status, WorkerClient& worker);

}  // namespace qgpu
