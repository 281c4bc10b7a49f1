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

// One text through one drift probe, from `first_position` on.
struct DriftJob {
  std::string probe;
  std::string text_name, text;
  int64_t positions = 0;  // at most so many; 0: all
  int64_t chunk = 1;
  // Taking up: rows before `first_position` (a multiple of `chunk`) are known, and were of this measurement.
  int64_t first_position = 0;
  std::string measurement;  // empty: none are known
  // A launch before the text: what the host feeds, and how much the model may write. Empty: none.
  std::vector<int32_t> host_ids;
  int64_t token_budget = 0;
  int64_t time_limit_ms = 3'600'000;
};

// What a worker says before its rows.
struct DriftStart {
  int64_t positions = 0;  // rows of the whole measurement
  std::string measurement;
  std::string token_source, reference, merged;
  bool has_noise_floor = false;
};

// Rows in order. `noise` and `predicted` have one entry a row, or none: not measured, not said.
struct DriftChunk {
  int64_t first_position = 0;
  std::vector<RowDrift> rows;
  std::vector<RowDrift> noise;
  std::vector<std::string> predicted;
};

// Takes what a worker sends of one measurement, as it comes and unchecked: start, then for a launch its tokens and its
// end, then rows. An error stops the measurement and is what MeasureDrift returns.
class DriftSink {
 public:
  virtual ~DriftSink() = default;
  virtual absl::Status OnStart(const DriftStart& start) = 0;
  virtual absl::Status OnLaunchTokens(std::span<const int32_t> ids) = 0;  // the next ones, as WorkerLaunch.ids
  virtual absl::Status OnLaunchEnd() = 0;
  virtual absl::Status OnRows(const DriftChunk& chunk) = 0;
};

struct DriftEnd {
  int64_t feed_ns = 0;
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

  // Errors of `sink`, else
  //   kAborted           `job.measurement` is another one than the worker's
  //   kDeadlineExceeded, kInvalidArgument, kFailedPrecondition  as RunLaunch
  //   anything else      infrastructure
  virtual absl::StatusOr<DriftEnd> MeasureDrift(const DriftJob& job, DriftSink& sink, std::stop_token stop) = 0;

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
