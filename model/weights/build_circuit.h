// Netlist and schedule become weights. Entry: BuildCircuit.
#pragma once

#include "model/schedule/schedule.h"
#include "model/weights/circuit.h"

namespace qgpu {

// What `qgpu build` reports.
struct CircuitReport {
  std::vector<LayerFigures> layers;
  int dimensions = 0;  // of the residual, constants and text flag included
  int machine_ids = 0;
  int64_t nonzero_weights = 0;  // layers and embedding
  double worst_margin = 0;      // gate units; 128 without noise
  double float32_error = 0;     // bound over all signals
  std::string noisiest_signal;
};

struct BuiltCircuit {
  Circuit circuit;
  CircuitReport report;
};

// The default machine for a base model of hidden size `base_hidden` (1 to 65536). Deterministic. kInvalidArgument for
// another size; kResourceExhausted or kInternal, naming the signal, when a limit or an invariant breaks.
absl::StatusOr<BuiltCircuit> BuildCircuit(int base_hidden, const CircuitLimits& limits = {});

}  // namespace qgpu
