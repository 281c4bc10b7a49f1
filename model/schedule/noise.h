// Internal: how far float32 rounding can move a signal from its integer, propagated through the layers.
//
// RMSNorm reads every value times 1 - delta, where delta is the energy of the live signals beside the constants'. A
// true AND passes on twice its literals' error; a cell about four times the error of what was written; a step none.
#pragma once

#include <string>
#include <vector>

#include "model/schedule/places.h"

namespace qgpu {

struct NoiseReport {
  std::vector<bool> restore;  // by neuron of the netlist: this AND must be a restoring pair
  double worst_margin = 0;
  double largest_error = 0;
  std::string noisiest_signal;
};

// kInternal naming the signal where a margin is broken.
absl::StatusOr<NoiseReport> PropagateNoise(const MachineNetlist& machine, const Places& places, int hidden,
                                           int norm_log2);

// Weight that holds a step's gate below zero while its literals do not hold: a power of two.
double StepHold(const Netlist& net, const Neuron& neuron);

}  // namespace qgpu
