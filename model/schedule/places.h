// Internal: residual dimensions as registers, allocated by liveness.
#pragma once

#include <vector>

#include "model/schedule/schedule.h"

namespace qgpu {

// A dimension's content from its first contribution to the end of its use, and where it is cleared after that.
struct Life {
  int signal = -1;    // the last of a chain of updates, whose value is cleared
  int first = 0;      // half-layer
  int last_read = 0;  // half-layer; 2 * layers for what must survive
  int ready = 0;
  int max = 1;        // largest value
  int clear_at = -1;  // layer; -1 if the dimension is not used again
};

struct Places {
  std::vector<int> dimension;  // by signal, -1: none
  std::vector<Life> lives;
  int width = 0;
};

// `fixed` dimensions (constants, text flag) are not given out. `load` is the number of neurons of each layer so far;
// clears are added where there are fewest. Deterministic.
Places AllocatePlaces(const MachineNetlist& machine, int fixed, std::vector<int> load);

// A count is kept as a fraction of its largest value, so that its energy is that of a bit: value * Scale in the
// residual.
double Scale(const Netlist& net, int32_t signal);

}  // namespace qgpu
