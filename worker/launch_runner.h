// What a worker's service runs launches on: a model, or in tests something that pretends to be one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {

// What is hosted, for reports.
struct HostedModel {
  std::string circuit_hash, circuit_sha256;
  std::string base = "none";
  int base_hidden = 0, layers = 0, added_width = 0;
  std::vector<std::string> forms;  // the first is in use
  std::string accelerator;         // empty: none
};

struct RunnerOutcome {
  LaunchEnd end = LaunchEnd::kDone;
  MachineState state;  // read from the recurrent state
  std::string fault;   // empty, or why `state` is incomplete or the launch stopped without an end
  int64_t forward_passes = 0;
  int64_t prefill_ns = 0, decode_ns = 0, read_ns = 0;
};

// Takes the tokens just written (machine ids, or -1 - t for text id t), in order. False: stop the launch.
using TokenSink = std::function<bool(std::span<const int32_t>)>;

class LaunchRunner {
 public:
  virtual ~LaunchRunner() = default;
  virtual HostedModel Describe() const = 0;

  // Feeds `host_ids` to a model in its initial state and lets it write until DONE, TRAP, a text token or `token_budget`
  // tokens. kCancelled when `sink` said stop; other errors are the executor's. One call at a time.
  virtual absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t> host_ids, int64_t token_budget,
                                            const TokenSink& sink) = 0;
};

}  // namespace qgpu
