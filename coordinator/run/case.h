// One case, in two steps: what does not need the model (once for each case), and one launch on one worker with its
// verdict (once for each item).
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/judge/judge.h"
#include "coordinator/run/parties.h"
#include "kernels/suite.h"
#include "lowering/ptx_cache/ptx_cache.h"

namespace qgpu {

struct CaseOptions {
  bool replay = true;                 // compare every position
  int64_t launch_limit_ms = 120'000;  // a launch of the model
  int64_t native_limit_ms = 20'000;   // a run of one of the oracle's engines
};

struct Settled {
  CaseStatus status = CaseStatus::kInfra;
  std::string message;
};

struct PreparedCase {
  // How the case ends without a launch: refused (which may be what is expected), or the oracle could not be asked.
  std::optional<Settled> settled;

  JudgeInput judge;                 // without the model's evidence
  std::vector<int32_t> oracle_ids;  // judge.interpreter points here
  std::vector<int32_t> host_ids;    // what is fed
  std::vector<Sample> samples;      // lowering and oracle times
};

// Asks the oracle for its interpreter's run, lowers and interprets the case here, and asks the oracle for its native
// run. The native engine has no part where a trap is expected or the token budget does not suffice. Infrastructure
// failures come back as an error, to be retried; kFailedPrecondition where this machine or the oracle's lacks the
// compiler.
absl::StatusOr<std::shared_ptr<const PreparedCase>> PrepareCase(const KernelCase& kernel_case,
                                                                const CaseOptions& options, PtxCache& ptx_cache,
                                                                OracleClient& oracle, std::stop_token stop);

struct AttemptOutcome {
  CaseStatus status = CaseStatus::kInfra;
  bool is_infrastructure = false;  // may be tried again
  std::string message;
  std::optional<LaunchRow> launch;
  std::vector<Sample> samples;
};

// Launches on `worker`, judges. A launch that writes many more tokens than the reference is stopped.
AttemptOutcome RunAttempt(const PreparedCase& prepared, const CaseOptions& options, WorkerClient& worker,
                          std::stop_token stop);

}  // namespace qgpu
