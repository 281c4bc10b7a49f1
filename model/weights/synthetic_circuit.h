// Circuits that are no machine, for tests and benchmarks of everything that reads one: files, executors, exports.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "model/weights/circuit.h"

namespace qgpu {

// Collects the weights of a matrix in any order.
class SparseMatrixBuilder {
 public:
  // Adds to the weight in that place.
  void Add(int32_t row, int32_t col, double weight) { weights_[{row, col}] += weight; }
  // The sorted matrix, weights rounded to bfloat16, zeros left out.
  SparseMatrix Finish(int32_t rows, int32_t cols) const;

 private:
  std::map<std::pair<int32_t, int32_t>, double> weights_;
};

// Small matrices of random values with nothing digital about them: every decay, write strength and gate lies in the
// middle of its range. For comparing arithmetic with a reference.
struct AnalogShape {
  int32_t layers = 2, heads = 2, neurons = 24, width = 20, base_hidden = 12, machine_ids = 17;
  double density = 0.4;
};
Circuit MakeAnalogCircuit(const AnalogShape& shape, uint64_t seed);

// Digital logic wired at random, of any size up to the real machine's: the bits of the token id go through layers of
// restoring neurons that choose among bits, and memory cells that are written and read at random addresses; the last
// layer's bits are the next id, so that greedy decoding wanders through the ids. Id 0 clears every cell.
struct DigitalShape {
  int32_t layers = 3, heads = 2, base_hidden = 64;
  int32_t id_bits = 6;     // 2^id_bits machine ids
  int32_t bits = 40;       // residual bits a layer computes, at least 2 * id_bits; 16 neurons each
  int32_t read_bits = 16;  // bits taken from each head, at most 64
};
Circuit MakeDigitalCircuit(const DigitalShape& shape, uint64_t seed);

// The size of the machine's own circuit as planned: 22 layers of 11 heads and 5,786 neurons.
DigitalShape MachineSizedShape();

}  // namespace qgpu
