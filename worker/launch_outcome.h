// A launch between the service's ids and the model's tokens.
#pragma once

#include <span>
#include <vector>

#include "model/launch/launch.h"
#include "worker/launch_runner.h"

namespace qgpu {

inline absl::StatusOr<std::vector<Token>> TokensOf(std::span<const int32_t> host_ids) {
  std::vector<Token> tokens;
  tokens.reserve(host_ids.size());
  for (const int32_t id : host_ids) {
    QGPU_ASSIGN_OR_RETURN(tokens.emplace_back(), TokenFromId(id));
  }
  return tokens;
}

inline RunnerOutcome OutcomeOf(const ModelRun& run, const Circuit& circuit) {
  RunnerOutcome outcome;
  outcome.end = run.end;
  outcome.state = run.state;
  outcome.state.memory.resize(circuit.geometry.memory_words);
  outcome.fault = std::string(run.fault.message());
  outcome.forward_passes = run.host_tokens + std::ssize(run.ids);
  outcome.prefill_ns = run.prefill_ns;
  outcome.decode_ns = run.decode_ns;
  outcome.read_ns = run.read_ns;
  return outcome;
}

}  // namespace qgpu
