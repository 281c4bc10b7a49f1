// A netlist: the machine as named signals, before any of them has a place in the residual or a weight.
//
// Time runs in half-layers: -1 is the embedding, 2L the mixer of layer L, 2L + 1 its MLP. A signal is a sum of
// contributions (embedding, head outputs, neurons); whoever reads it must come later than the last of them. Values are
// small integers: bits, and counts up to 63. Nothing here knows about floating point.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "machine/isa/token.h"

namespace qgpu {

// Index of a signal in its netlist.
struct Signal {
  int32_t id = -1;
};

// constant + sum of coefficient * signal.
struct Linear {
  std::vector<std::pair<int32_t, double>> terms;
  double constant = 0;

  Linear() = default;
  Linear(double c) : constant(c) {}         // NOLINT: forms read like formulas
  Linear(Signal s) : terms{{s.id, 1.0}} {}  // NOLINT
  Linear& operator+=(const Linear& other);
};
Linear operator+(Linear a, const Linear& b);
Linear operator-(Linear a, const Linear& b);
Linear operator*(double factor, Linear a);

// A literal is a form whose value is 0 or 1: a bit, its negation, or a sum of bits of which at most one is on.
using Literals = std::vector<Linear>;
inline Linear Not(const Linear& literal) { return Linear(1.0) - literal; }
// Literals that say: the unsigned number `bits` (low bit first) is `value`.
Literals Equals(const std::vector<Signal>& bits, uint32_t value);
Literals operator+(Literals a, const Literals& b);
Linear Sum(const std::vector<Signal>& signals);

// Where a neuron's value goes: signal += weight * value.
struct Output {
  Signal signal;
  double weight = 1;
};

struct Neuron {
  enum class Kind {
    kAnd,     // value = all literals hold ? 1 : 0
    kStep,    // value = all literals hold and count >= 1 ? 1 : 0, by two neurons that restore exact levels
    kLinear,  // value = factor
  };
  Kind kind = Kind::kAnd;
  int layer = 0;
  // Sum of the literals - (their number - 1): 1 when all hold, 0 or less otherwise.
  Linear condition = 1.0;
  int literals = 0;
  Linear count;            // kStep: 1 or more, or 0 or less
  Linear factor = 1.0;     // kLinear
  bool restore = false;    // kAnd: always as a restoring pair
  bool tolerated = false;  // kAnd: what reads it restores levels itself, so that more noise may pass
  std::vector<Output> outputs;
};

// A linear attention head as memory: 128 rows of 64 cells, each cell on two rails ("on" and "off").
// All conditions are sums of literals as in Neuron::condition: they hold when the value is 1 and do not when it is 0 or
// less.
struct Head {
  struct Component {
    int index = 0;  // row (keys, queries) or cell (values)
    Linear condition;
  };
  struct Tap {
    int cell = 0;
    Signal target;
  };
  std::string name;
  int layer = 0;
  std::vector<Component> keys, queries;  // one-hot keys; a many-hot query reads the sum of rows
  std::vector<Component> on, off;        // rails; cells without any are padded by `pads`
  Linear write;                          // the key's row is overwritten
  Linear reset;                          // every row is cleared first
  std::vector<Tap> taps;                 // target += on rail of the cell
};

class Netlist {
 public:
  struct SignalInfo {
    std::string name;
    int max = 1;                          // values are 0 .. max
    int update_of = -1;                   // starts as that signal's value, in the same place
    std::function<int(Token)> embedding;  // contribution of the embedding, or empty
  };

  Signal Bit(const std::string& name) { return Add(name, 1, -1); }
  Signal Count(const std::string& name, int max) { return Add(name, max, -1); }
  // A signal that starts as `old` and takes its place; nobody may read `old` after the first contribution to it.
  Signal Update(Signal old);
  std::vector<Signal> Bits(const std::string& name, int count);
  std::vector<Signal> Update(const std::vector<Signal>& old);

  // Signals that tokens bring with their embedding.
  Signal Input(const std::string& name, std::function<int(Token)> value);

  // Neurons of the MLP of `layer`.
  void And(int layer, const Literals& literals, std::vector<Output> outputs);
  // target, an update of `bit` or a copy of it, is inverted where all literals hold.
  void Flip(int layer, const Literals& literals, Signal bit, Signal target);
  // Marks the neurons added since there were `first` as tolerated.
  void Tolerate(size_t first);
  void Restoring(int layer, const Literals& literals, std::vector<Output> outputs);
  // count >= 1, where all literals hold.
  void Step(int layer, const Literals& literals, const Linear& count, std::vector<Output> outputs);
  void Linearly(int layer, const Linear& factor, std::vector<Output> outputs);

  Head& AddHead(const std::string& name, int layer);

  const std::vector<SignalInfo>& signals() const { return signals_; }
  const std::vector<Neuron>& neurons() const { return neurons_; }
  const std::deque<Head>& heads() const { return heads_; }
  std::deque<Head>& mutable_heads() { return heads_; }
  int layers() const { return layers_; }
  void set_layers(int layers) { layers_ = layers; }
  const std::string& name(int32_t id) const { return signals_[id].name; }

 private:
  Signal Add(const std::string& name, int max, int update_of);
  Neuron& AddNeuron(Neuron::Kind kind, int layer, const Literals& literals, std::vector<Output> outputs);

  std::vector<SignalInfo> signals_;
  std::vector<Neuron> neurons_;
  std::deque<Head> heads_;  // references stay valid
  int layers_ = 0;
};

// Half-layers of every signal: its first contribution (kNever without any), its last one (an update starts as complete
// as the signal it replaces), and its last reader (-1 without any).
inline constexpr int kNever = 1 << 20;
struct SignalTimes {
  std::vector<int> first, ready, last_read;
};
SignalTimes TimesOf(const Netlist& net);

// Sum of literals - (number - 1).
Linear All(const Literals& literals);

// Cells of `head`: cell first + i stores bits[i] (a literal), both rails.
void StoreBits(Head& head, int first, const std::vector<Linear>& bits);
// Cells that are constantly on, so that every read finds 64 rails on.
void PadCells(Head& head, int first, int count, const Linear& condition);

}  // namespace qgpu
