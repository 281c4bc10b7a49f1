// The run of a suite: prepares cases ahead of the workers, gives items out, judges, records each result before it
// counts, and returns the run as the store has it. Entry: RunSuite.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/run/case.h"
#include "coordinator/run/parties.h"
#include "coordinator/schedule/scheduler.h"
#include "coordinator/store/store.h"

namespace qgpu {

struct RunPlan {
  std::vector<std::pair<std::string, std::string>> suites;  // name, hash
  std::vector<KernelCase> cases;
  int repetitions = 1;
  bool quick = false;
  CaseOptions options;
  SchedulerOptions scheduling;  // lease_ms and attempt_prefix are set by RunSuite
  int preparers = 2;            // cases that are prepared at the same time
  std::vector<std::pair<std::string, std::string>> manifest;
};

// Milliseconds; injected for tests.
struct Clocks {
  std::function<int64_t()> steady_ms;  // never goes back
  std::function<int64_t()> unix_ms;
};
Clocks RealClocks();

struct Progress {
  int done = 0, total = 0;
  int not_passed = 0;
  int64_t tokens = 0;
  int64_t elapsed_ms = 0;
};

// Told what happens, from one thread at a time.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void OnStart(int64_t /*run_id*/, const Progress&) {}
  // An item is done, and on the disk.
  virtual void OnItemDone(const KernelCase&, const std::string& /*worker*/, const AttemptRow&, const Progress&) {}
  // Several times a second.
  virtual void OnTick(const Progress&) {}
};

// Runs everything. When `stop` is requested, running calls are cancelled and the run ends as "interrupted", with all
// finished items in the store. An error means that the run could not be recorded or a party could not be reached at
// its beginning.
absl::StatusOr<RunReport> RunSuite(const RunPlan& plan, const std::vector<WorkerClient*>& workers, OracleClient& oracle,
                                   Store& store, RunListener& listener, std::stop_token stop,
                                   const Clocks& clocks = RealClocks());

}  // namespace qgpu
