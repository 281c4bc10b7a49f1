// From signals to places: which residual dimension holds a signal, which neurons compute it, where it is cleared.
// Entry: MakeSchedule. Everything that weights rely on is checked here, and a failure names the signal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/netlist/machine_netlist.h"

namespace qgpu {

// The contract's limits of a circuit.
struct CircuitLimits {
  int layers = 45;
  int neurons = 6144;     // a layer
  int heads = 16;         // a layer
  int dimensions = 1280;  // added to the residual
};

// One SwiGLU neuron: output += weight * silu(gate) * up. Constants are in units of the constant literal, which reads 1.
struct PlacedNeuron {
  Linear gate, up;
  std::vector<Output> outputs;
};

// Figures of one layer, for reports.
struct LayerFigures {
  int neurons = 0, heads = 0;
  int live_after_mixer = 0, live_after_mlp = 0;  // dimensions in use, constants included
  int restoring = 0;                             // neurons that are part of restoring pairs of ANDs
};

struct Schedule {
  // Residual dimension of a signal; -1 for one that is always 0. Constants and the text flag come first.
  std::vector<int> dimension;
  std::vector<double> scale;      // the residual holds value * scale, a power of two; 1 for bits
  std::vector<double> constants;  // values of dimensions 0 .. constants.size() - 1, powers of two
  int text_flag = 0;              // dimension
  int width = 0;                  // dimensions in use
  int norm_log2 = 0;              // m: the norm divides by 2^m

  std::vector<std::vector<PlacedNeuron>> neurons;  // by layer
  std::vector<LayerFigures> figures;
  double worst_margin = 0;      // smallest distance of a false gate from 0, in gate units (128 without noise)
  double float32_error = 0;     // largest bound of any signal's error in float32
  std::string noisiest_signal;  // where it is
};

// `hidden` is H, base and added dimensions together: the constants are chosen so that the norm is a power of two.
// kResourceExhausted when a limit is exceeded, kInternal when an invariant is broken.
absl::StatusOr<Schedule> MakeSchedule(const MachineNetlist& machine, int hidden, const CircuitLimits& limits);

}  // namespace qgpu
