// The other programs as the coordinator sees them. No gRPC here: tests put programs of their own behind these.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "machine/isa/machine_launch.h"
#include "reports/rows.h"

namespace qgpu {

// What a worker sent for one launch. Nothing of it is believed before it was judged.
struct WorkerLaunch {
  std::vector<int32_t> ids;           // machine ids, or -1 - t for text id t
  std::optional<MachineState> state;  // none: the caller stopped the launch before its end
  std::string fault;                  // the worker says that its model's state is not readable; else empty
  int64_t host_tokens = 0, forward_passes = 0;
  int64_t prefill_ns = 0, decode_ns = 0, read_ns = 0, wait_ns = 0;
};

struct LaunchLimits {
  int64_t token_budget = 20'000;
  int64_t time_limit_ms = 120'000;
};

class WorkerClient {
 public:
  virtual ~WorkerClient() = default;
  // Role, program, machine and model; `name` and `address` as the coordinator calls them.
  virtual absl::StatusOr<NodeRow> Describe() = 0;

  // `keep_going` sees the tokens that came so far and returns false to stop the launch; the result then has no state.
  //   kDeadlineExceeded  stopped at the time limit
  //   kInvalidArgument, kFailedPrecondition  the worker refuses the request
  //   anything else      infrastructure
  virtual absl::StatusOr<WorkerLaunch> RunLaunch(std::span<const int32_t> host_ids, const LaunchLimits& limits,
                                                 const std::function<bool(std::span<const int32_t>)>& keep_going,
                                                 std::stop_token stop) = 0;

  // After a failed call: how the worker's process died during it, where that is known to have happened; else empty.
  virtual std::string DeathNote() { return ""; }
};

enum class OracleOutcome { kDone, kTrap, kBudget, kRefused, kUnsupported, kTimeout, kCrash, kNotRun };

struct OracleRun {
  OracleOutcome outcome = OracleOutcome::kCrash;
  std::string message;
  std::string engine;                 // "native-cpu", "interpreter"
  std::string witness;                // engine and device
  MemoryImage memory;                 // of the arena, when done
  std::vector<int32_t> ids;           // interpreter: reference tokens
  std::optional<MachineState> state;  // interpreter
  int64_t compile_ns = 0, run_ns = 0;
};

class OracleClient {
 public:
  virtual ~OracleClient() = default;
  virtual absl::StatusOr<NodeRow> Describe() = 0;
  // Errors are infrastructure, or kFailedPrecondition where the oracle lacks what it needs. Thread safe.
  virtual absl::StatusOr<OracleRun> RunNative(const LaunchSpec& spec, int64_t time_limit_ms, std::stop_token stop) = 0;
  virtual absl::StatusOr<OracleRun> RunInterpreter(const LaunchSpec& spec, int64_t time_limit_ms,
                                                   std::stop_token stop) = 0;
};

}  // namespace qgpu
