// The run of suites of any kind: prepares cases ahead of the workers, gives items out, records each result before it
// counts, and returns the run as the store has it. Entry: RunSuite.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/run/parties.h"
#include "coordinator/run/suite_case.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/store/store.h"

namespace qgpu {

struct RunPlan {
  std::vector<SuiteRow> suites;
  std::vector<std::shared_ptr<const SuiteCase>> cases;  // those of a suite beside each other
  int repetitions = 1;
  bool quick = false;
  SchedulerOptions scheduling;  // leases and attempt ids are set by RunSuite
  int preparers = 2;            // cases that are prepared at the same time
  std::vector<std::pair<std::string, std::string>> manifest;
  std::vector<std::string> arguments;  // kept with the run
  int64_t take_up = 0;                 // a run of the store to go on with; 0: a new one
};

// The items of a plan in the order in which a worker is given them: suites one after another; a kernel suite repetition
// by repetition, so that times of a case are spread over the run; a drift suite probe by probe, so that a probe's
// models are loaded once.
std::vector<WorkItem> OrderItems(const std::vector<std::shared_ptr<const SuiteCase>>& cases, int workers,
                                 int repetitions);

// Milliseconds; injected for tests.
struct Clocks {
  std::function<int64_t()> steady_ms;  // never goes back
  std::function<int64_t()> unix_ms;
};
Clocks RealClocks();

struct Progress {
  int done = 0, total = 0;
  int not_passed = 0;
  int done_before = 0;     // of `done`: before the run was taken up
  int64_t tokens = 0;      // of launches
  int64_t positions = 0;   // of drift measurements, since the run was begun or taken up
  int64_t elapsed_ms = 0;  // since then
};

// Told what happens, from one thread at a time.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void OnStart(int64_t /*run_id*/, const Progress&) {}
  // An item is done, and on the disk.
  virtual void OnItemDone(const CaseName&, const std::string& /*worker*/, const AttemptRow&, const Progress&) {}
  // Several times a second.
  virtual void OnTick(const Progress&) {}
};

// Runs everything, or of a run that is taken up what it lacks: items without a status. When `stop` is requested,
// running calls are cancelled and the run ends as "interrupted", with all finished items in the store. An error means
// that the run could not be recorded, a party could not be reached at its beginning, or the run cannot be taken up
// (CheckSameRun, Store::ClaimRun); nothing is changed then.
absl::StatusOr<RunReport> RunSuite(const RunPlan& plan, const std::vector<WorkerClient*>& workers, OracleClient& oracle,
                                   Store& store, RunListener& listener, std::stop_token stop,
                                   const Clocks& clocks = RealClocks());

}  // namespace qgpu
