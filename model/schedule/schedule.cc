#include "model/schedule/schedule.h"

#include <algorithm>
#include <cmath>

#include "model/schedule/noise.h"
#include "model/schedule/places.h"

namespace qgpu {
namespace {

constexpr int kNormLog2 = 8;  // 2^m - 1 must be exact in bfloat16

// Powers of two whose squares sum to 4^m H: a digit of H in base 4 at 4^j asks for that many of 2^j 2^m. At least
// three, so that large constants of a gate can be spread over exact parts.
std::vector<double> Constants(int hidden) {
  std::vector<int> exponents;
  for (int j = 0; hidden >> 2 * j != 0; ++j) {
    for (int n = hidden >> 2 * j & 3; n > 0; --n) exponents.push_back(j);
  }
  std::sort(exponents.rbegin(), exponents.rend());
  while (exponents.size() < 3) {
    const int largest = exponents.front();
    exponents.erase(exponents.begin());
    exponents.insert(exponents.end(), 4, largest - 1);
    std::sort(exponents.rbegin(), exponents.rend());
  }
  std::vector<double> constants;
  for (int j : exponents) constants.push_back(std::exp2(j + kNormLog2));
  return constants;
}

// silu(128) = 128: the neuron is on with gate 128, so that up carries 1 / 128.
void PlaceAnd(const Neuron& neuron, std::vector<PlacedNeuron>& placed) {
  placed.push_back({256 * (neuron.condition - 0.5), 1.0 / 128, neuron.outputs});
}

// Two gates that differ by 256 wherever both are on: the difference is exact whatever the noise.
void PlacePair(const Linear& rising, const std::vector<Output>& outputs, std::vector<PlacedNeuron>& placed) {
  std::vector<Output> negated = outputs;
  for (Output& out : negated) out.weight = -out.weight;
  placed.push_back({rising - 128.0, 1.0 / 256, outputs});
  placed.push_back({rising - 384.0, 1.0 / 256, negated});
}

void PlaceNeuron(const Netlist& net, const Neuron& neuron, bool restore, std::vector<PlacedNeuron>& placed) {
  switch (neuron.kind) {
    case Neuron::Kind::kAnd:
      if (restore) {
        PlacePair(512 * neuron.condition, neuron.outputs, placed);
      } else {
        PlaceAnd(neuron, placed);
      }
      break;
    case Neuron::Kind::kStep:
      PlacePair(512 * neuron.count + StepHold(net, neuron) * (neuron.condition - 1.0), neuron.outputs, placed);
      break;
    case Neuron::Kind::kLinear:
      placed.push_back({128.0, (1.0 / 128) * neuron.factor, neuron.outputs});
      break;
  }
}

absl::Status CheckLimits(const Schedule& schedule, const CircuitLimits& limits) {
  const int layers = static_cast<int>(schedule.neurons.size());
  if (layers > limits.layers) {
    return absl::ResourceExhaustedError(
        fmt::format("the circuit has {} layers, the limit is {}", layers, limits.layers));
  }
  if (schedule.width > limits.dimensions) {
    return absl::ResourceExhaustedError(
        fmt::format("the circuit needs {} residual dimensions, the limit is {}", schedule.width, limits.dimensions));
  }
  for (int layer = 0; layer < layers; ++layer) {
    const LayerFigures& figures = schedule.figures[layer];
    if (figures.neurons > limits.neurons) {
      const auto& outputs = schedule.neurons[layer].back().outputs;
      return absl::ResourceExhaustedError(
          fmt::format("layer {} has {} neurons (the last for signal {}), the limit is {}", layer, figures.neurons,
                      outputs.empty() ? -1 : outputs[0].signal.id, limits.neurons));
    }
    if (figures.heads > limits.heads) {
      return absl::ResourceExhaustedError(
          fmt::format("layer {} has {} heads, the limit is {}", layer, figures.heads, limits.heads));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const MachineNetlist& machine, int hidden, const CircuitLimits& limits) {
  const Netlist& net = machine.netlist;
  Schedule schedule;
  schedule.norm_log2 = kNormLog2;
  schedule.constants = Constants(hidden);
  schedule.text_flag = static_cast<int>(schedule.constants.size());
  const int fixed = schedule.text_flag + 1;

  std::vector<int> load(net.layers());
  for (const Neuron& neuron : net.neurons()) load[neuron.layer] += neuron.kind == Neuron::Kind::kStep ? 2 : 1;
  const Places places = AllocatePlaces(machine, fixed, load);
  QGPU_ASSIGN_OR_RETURN(const NoiseReport noise, PropagateNoise(machine, places, hidden, kNormLog2));
  schedule.dimension = places.dimension;
  for (size_t i = 0; i < net.signals().size(); ++i) schedule.scale.push_back(Scale(net, static_cast<int32_t>(i)));
  schedule.width = places.width;
  schedule.worst_margin = noise.worst_margin;
  schedule.float32_error = noise.largest_error;
  schedule.noisiest_signal = noise.noisiest_signal;

  schedule.neurons.resize(net.layers());
  schedule.figures.resize(net.layers());
  for (size_t i = 0; i < net.neurons().size(); ++i) {
    const Neuron& neuron = net.neurons()[i];
    PlaceNeuron(net, neuron, noise.restore[i], schedule.neurons[neuron.layer]);
    if (noise.restore[i]) schedule.figures[neuron.layer].restoring += 2;
  }
  for (const Life& life : places.lives) {
    if (life.clear_at >= 0) {
      const Signal signal = {life.signal};
      schedule.neurons[life.clear_at].push_back({128.0, (1.0 / 128) * Linear(signal), {{signal, -1}}});
    }
    const int end = life.clear_at < 0 ? 2 * net.layers() : 2 * life.clear_at + 1;
    for (int time = std::max(0, life.first); time < std::min(end, 2 * net.layers()); ++time) {
      LayerFigures& figures = schedule.figures[time / 2];
      ++(time % 2 == 0 ? figures.live_after_mixer : figures.live_after_mlp);
    }
  }
  for (const Head& head : net.heads()) ++schedule.figures[head.layer].heads;
  for (int layer = 0; layer < net.layers(); ++layer) {
    LayerFigures& figures = schedule.figures[layer];
    figures.neurons = static_cast<int>(schedule.neurons[layer].size());
    figures.live_after_mixer += fixed;
    figures.live_after_mlp += fixed;
  }
  QGPU_RETURN_IF_ERROR(CheckLimits(schedule, limits));
  return schedule;
}

}  // namespace qgpu
