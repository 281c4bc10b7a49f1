#include "model/merge/test_circuit.h"

#include <utility>

namespace qgpu {

Circuit WithUnusedDimensions(Circuit circuit, int32_t count) {
  circuit.width += count;
  circuit.embedding.cols = circuit.width;
  circuit.final_norm.resize(circuit.width, -1);
  for (CircuitLayer& layer : circuit.layers) {
    layer.input_norm.resize(circuit.width, 0);
    layer.post_norm.resize(circuit.width, 0);
    for (SparseMatrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.gate, &layer.up}) {
      matrix->cols = circuit.width;
    }
    layer.out.rows = layer.down.rows = circuit.width;
  }
  return circuit;
}

Circuit WithFreeTextFlag(Circuit circuit) {
  circuit.text_flag_dimension = circuit.width;
  --circuit.base_hidden;
  return WithUnusedDimensions(std::move(circuit), 1);
}

}  // namespace qgpu
