#include "model/merge/test_circuit.h"

namespace qgpu {

Circuit WithFreeTextFlag(Circuit circuit) {
  circuit.text_flag_dimension = circuit.width++;
  --circuit.base_hidden;
  circuit.embedding.cols = circuit.width;
  circuit.final_norm.push_back(-1);
  for (CircuitLayer& layer : circuit.layers) {
    layer.input_norm.push_back(0);
    layer.post_norm.push_back(0);
    for (SparseMatrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.gate, &layer.up}) {
      matrix->cols = circuit.width;
    }
    layer.out.rows = layer.down.rows = circuit.width;
  }
  return circuit;
}

}  // namespace qgpu
