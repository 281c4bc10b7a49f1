// The netlist, evaluated directly with integers: what the weights must compute, without a weight. It checks on the way
// that every bit is 0 or 1, every count in its range and every memory row written by one key.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "common/status.h"
#include "machine/isa/token.h"
#include "model/netlist/machine_netlist.h"

namespace qgpu {

class NetlistEvaluator {
 public:
  explicit NetlistEvaluator(const MachineNetlist& machine);
  ~NetlistEvaluator();

  // Feeds one token and returns the next one. kInternal, naming the signal, when the netlist breaks its own rules.
  // With `strict` false those checks are off: while the host loads, half-written memories are read and not used.
  absl::StatusOr<Token> Step(Token token, bool strict = true);

  // Value of a signal after the last step, and a row of a head (cells that are on), for tests.
  int value(Signal signal) const;
  std::array<int, 64> ReadRow(int head, int row) const;

 private:
  struct Plan;
  const MachineNetlist& machine_;
  std::unique_ptr<Plan> plan_;
  std::vector<int> values_;
  // rows_[head][row]: on rails in cells 0..63, off rails in 64..127
  std::vector<std::array<std::array<int8_t, 128>, 128>> rows_;
};

}  // namespace qgpu
