#include "model/weights/circuit_tensors.h"

#include <algorithm>

namespace qgpu {
namespace {

template <typename CircuitType>
void AppendLayer(CircuitType& circuit, size_t index, std::vector<TensorRef<CircuitType>>& out) {
  auto& layer = circuit.layers[index];
  const int32_t width = circuit.width, heads = layer.heads, channels = heads * kHeadDim, neurons = layer.neurons;
  const std::string prefix = fmt::format("layers.{}.", index);
  auto sparse = [&](const char* name, int32_t rows, int32_t cols, auto& matrix) {
    out.push_back({prefix + name, rows, cols, &matrix, nullptr});
  };
  auto dense = [&](const char* name, int32_t size, auto& vector) {
    out.push_back({prefix + name, size, 1, nullptr, &vector});
  };
  dense("input_norm", width, layer.input_norm);
  sparse("mixer.q", channels, width, layer.q);
  sparse("mixer.k", channels, width, layer.k);
  sparse("mixer.v", channels, width, layer.v);
  sparse("mixer.z", channels, width, layer.z);
  sparse("mixer.b", heads, width, layer.b);
  sparse("mixer.a", heads, width, layer.a);
  dense("mixer.a_log", heads, layer.a_log);
  dense("mixer.dt_bias", heads, layer.dt_bias);
  dense("mixer.head_norm", kHeadDim, layer.head_norm);
  sparse("mixer.out", width, channels, layer.out);
  dense("post_norm", width, layer.post_norm);
  sparse("mlp.gate", neurons, width, layer.gate);
  sparse("mlp.up", neurons, width, layer.up);
  sparse("mlp.down", width, neurons, layer.down);
}

template <typename CircuitType>
std::vector<TensorRef<CircuitType>> AllTensors(CircuitType& circuit, int32_t machine_ids) {
  std::vector<TensorRef<CircuitType>> out;
  out.push_back({"embedding", machine_ids, circuit.width, &circuit.embedding, nullptr});
  out.push_back({"final_norm", circuit.width, 1, nullptr, &circuit.final_norm});
  for (size_t i = 0; i < circuit.layers.size(); ++i) AppendLayer(circuit, i, out);
  return out;
}

}  // namespace

std::vector<TensorRef<Circuit>> CircuitTensors(Circuit& circuit, int32_t machine_ids) {
  return AllTensors(circuit, machine_ids);
}

std::vector<TensorRef<const Circuit>> CircuitTensors(const Circuit& circuit, int32_t machine_ids) {
  return AllTensors(circuit, machine_ids);
}

std::vector<TensorRef<Circuit>> LayerMatrices(Circuit& circuit, int layer) {
  std::vector<TensorRef<Circuit>> out;
  AppendLayer(circuit, layer, out);
  std::erase_if(out, [](const TensorRef<Circuit>& tensor) { return tensor.sparse == nullptr; });
  return out;
}

int32_t Circuit::max_heads() const {
  int32_t most = 0;
  for (const CircuitLayer& layer : layers) most = std::max(most, layer.heads);
  return most;
}

int32_t Circuit::max_neurons() const {
  int32_t most = 0;
  for (const CircuitLayer& layer : layers) most = std::max(most, layer.neurons);
  return most;
}

absl::StatusOr<CorruptedWeight> CorruptCircuit(Circuit& circuit, int layer, int64_t index) {
  const int64_t layers = static_cast<int64_t>(circuit.layers.size());
  if (layer < 0 || layer >= layers) {
    return absl::OutOfRangeError(fmt::format("layer {}: the circuit has layers 0 to {}", layer, layers - 1));
  }
  int64_t skipped = 0;
  for (const TensorRef<Circuit>& tensor : LayerMatrices(circuit, layer)) {
    const int64_t count = static_cast<int64_t>(tensor.sparse->nonzeros());
    if (index >= 0 && index - skipped < count) {
      const size_t at = static_cast<size_t>(index - skipped);
      float& value = tensor.sparse->value[at];
      const float before = value;
      value = -value;
      return CorruptedWeight{tensor.name, tensor.sparse->row[at], tensor.sparse->col[at], before, value};
    }
    skipped += count;
  }
  return absl::OutOfRangeError(fmt::format("weight {}: layer {} has {} non-zero weights", index, layer, skipped));
}

}  // namespace qgpu
