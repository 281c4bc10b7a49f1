// The tensors of a circuit as one list: names, shapes and storage, in the order of the file. The file format, the
// checks and the corruption all walk it, so that a tensor cannot be forgotten by one of them.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "model/weights/circuit.h"

namespace qgpu {

// Refers to a tensor of a circuit that outlives it. Exactly one of `sparse` and `dense` is set.
template <typename CircuitType>
struct TensorRef {
  template <typename T>
  using Pointer = std::conditional_t<std::is_const_v<CircuitType>, const T*, T*>;

  std::string name;    // "layers.3.mlp.down"
  int32_t rows, cols;  // the shape it must have; cols is 1 for vectors
  Pointer<SparseMatrix> sparse = nullptr;
  Pointer<std::vector<float>> dense = nullptr;
};

// Expected shapes come from width, heads and neurons, and `machine_ids` for the embedding.
std::vector<TensorRef<Circuit>> CircuitTensors(Circuit& circuit, int32_t machine_ids);
std::vector<TensorRef<const Circuit>> CircuitTensors(const Circuit& circuit, int32_t machine_ids);

// The matrices of one layer: q, k, v, z, b, a, out, gate, up, down.
std::vector<TensorRef<Circuit>> LayerMatrices(Circuit& circuit, int layer);

}  // namespace qgpu
