#include "model/schedule/noise.h"

#include <algorithm>
#include <cmath>

namespace qgpu {
namespace {

constexpr double kRounding = 1e-6;      // of one neuron or head in float32
constexpr double kRestoreAbove = 3e-5;  // ANDs noisier than this become pairs, unless they only count
constexpr double kTolerated = 1e-3;     // the same where the reader restores levels
constexpr double kSmallestMargin = 60;  // silu(-60) is -5e-25, lost beside 1 in float32
constexpr double kMargin = 128;         // of every gate without noise

double LargestValue(const Netlist& net, const Linear& form) {
  double largest = form.constant;
  for (const auto& [id, coefficient] : form.terms) {
    if (coefficient > 0) largest += coefficient * net.signals()[id].max;
  }
  return largest;
}

class Propagation {
 public:
  Propagation(const MachineNetlist& machine, const Places& places, double energy_scale)
      : net_(machine.netlist),
        places_(places),
        error_(net_.signals().size(), 0.0),
        contributions_(error_.size()),
        started_(error_.size()),
        overlapping_(error_.size()) {
    report_.restore.assign(net_.neurons().size(), false);
    report_.worst_margin = kMargin;
    delta_.assign(2 * net_.layers() + 1, 0.0);
    for (const Life& life : places.lives) {
      const int end = life.clear_at < 0 ? 2 * net_.layers() : 2 * life.clear_at + 1;
      for (int time = std::max(life.first + 1, 0); time <= std::min(end, 2 * net_.layers()); ++time) {
        delta_[time] += std::pow(life.max * Scale(net_, life.signal), 2) * energy_scale;
      }
    }
    residue_.assign(places.width, 0.0);
  }

  absl::StatusOr<NoiseReport> Run() {
    std::vector<std::vector<size_t>> neurons(net_.layers());
    std::vector<std::vector<const Head*>> heads(net_.layers());
    for (size_t i = 0; i < net_.neurons().size(); ++i) neurons[net_.neurons()[i].layer].push_back(i);
    for (const Head& head : net_.heads()) heads[head.layer].push_back(&head);
    for (int layer = 0; layer < net_.layers(); ++layer) {
      for (const Head* head : heads[layer]) QGPU_RETURN_IF_ERROR(ThroughHead(*head));
      Settle(2 * layer);
      for (size_t index : neurons[layer]) QGPU_RETURN_IF_ERROR(ThroughNeuron(index));
      Settle(2 * layer + 1);
    }
    return std::move(report_);
  }

 private:
  double Error(const Linear& form) const {
    double sum = 0;
    for (const auto& [id, coefficient] : form.terms) sum += std::abs(coefficient) * error_[id];
    return sum;
  }

  absl::Status Margin(double lost, const std::string& what) {
    report_.worst_margin = std::min(report_.worst_margin, kMargin - lost);
    if (kMargin - lost >= kSmallestMargin) return absl::OkStatus();
    return absl::InternalError(fmt::format("the gate of {} keeps a margin of {:.1f}, {} are needed in float32", what,
                                           kMargin - lost, kSmallestMargin));
  }

  absl::Status ThroughHead(const Head& head) {
    double stored = 0, read = 0;
    for (const auto* components : {&head.keys, &head.queries, &head.on, &head.off}) {
      for (const auto& component : *components) {
        const double error = Error(component.condition);
        QGPU_RETURN_IF_ERROR(Margin(256 * error, head.name));
        if (components == &head.on || components == &head.off) stored = std::max(stored, error);
        if (components == &head.queries) read = std::max(read, error);
      }
    }
    // beta is exactly 0 below -110 and exactly 1 above 40; the gate stands at -150 and 150.
    QGPU_RETURN_IF_ERROR(Margin(300 * Error(head.write), head.name + ".write"));
    const bool many_rows = head.queries.size() > 1 && head.queries[0].condition.terms.empty();
    for (const auto& tap : head.taps) {
      contributions_[tap.target.id].push_back(4 * stored + (many_rows ? 2 * read : 0) + kRounding);
    }
    return absl::OkStatus();
  }

  absl::Status ThroughNeuron(size_t index) {
    const Neuron& neuron = net_.neurons()[index];
    const std::string name = neuron.outputs.empty() ? "a neuron" : net_.name(neuron.outputs[0].signal.id);
    double error = kRounding;
    if (neuron.kind == Neuron::Kind::kStep) {
      const double lost = 512 * Error(neuron.count) + StepHold(net_, neuron) * Error(neuron.condition);
      QGPU_RETURN_IF_ERROR(Margin(lost, name));
    } else if (neuron.kind == Neuron::Kind::kAnd) {
      const double condition = Error(neuron.condition);
      QGPU_RETURN_IF_ERROR(Margin(256 * condition, name));
      const double plain = error + 2 * condition;
      const bool into_count = net_.signals()[neuron.outputs[0].signal.id].max > 1;
      if (neuron.restore || (plain > (neuron.tolerated ? kTolerated : kRestoreAbove) && !into_count)) {
        report_.restore[index] = true;
        QGPU_RETURN_IF_ERROR(Margin(512 * condition, name));
      } else {
        error = plain;
      }
    } else {
      error += Error(neuron.factor);
    }
    for (const Output& out : neuron.outputs) {
      contributions_[out.signal.id].push_back(std::abs(out.weight) * error);
      if (out.weight < 0) overlapping_[out.signal.id] = true;
    }
    return absl::OkStatus();
  }

  // Contributions become the signals' errors. Where all of a bit's add, one is on at once, else two (old - old + new);
  // of a count as many as it can reach, and one more. The norm's 2 delta is common to all of them and counts once.
  void Settle(int time) {
    for (size_t id = 0; id < contributions_.size(); ++id) {
      auto& errors = contributions_[id];
      if (errors.empty()) continue;
      const int max = net_.signals()[id].max;
      const size_t at_once = std::min<size_t>(errors.size(), max > 1 ? max + 1 : overlapping_[id] ? 2 : 1);
      std::partial_sort(errors.begin(), errors.begin() + at_once, errors.end(), std::greater<>());
      double error = started_[id] ? error_[id] : Inherited(id);
      for (size_t i = 0; i < at_once; ++i) error += errors[i];
      error += 2 * delta_[time] * max;
      errors.clear();
      started_[id] = true;
      error_[id] = error;
      if (error > report_.largest_error) {
        report_.largest_error = error;
        report_.noisiest_signal = net_.name(static_cast<int32_t>(id));
      }
      // What a clear of this content will leave behind.
      const int dimension = places_.dimension[id];
      residue_[dimension] = (2 * delta_[time] * max + kRounding) * Scale(net_, static_cast<int32_t>(id));
    }
  }

  // An update starts with the old signal's error, a new content with what the clear of the dimension left.
  double Inherited(size_t id) const {
    const int old = net_.signals()[id].update_of;
    return old >= 0 ? error_[old] : residue_[places_.dimension[id]] / Scale(net_, static_cast<int32_t>(id));
  }

  const Netlist& net_;
  const Places& places_;
  std::vector<double> error_;
  std::vector<std::vector<double>> contributions_;
  std::vector<bool> started_, overlapping_;
  std::vector<double> delta_, residue_;
  NoiseReport report_;
};

}  // namespace

double StepHold(const Netlist& net, const Neuron& neuron) {
  if (neuron.literals == 0) return 0;
  const double needed = 512 * std::max(1.0, LargestValue(net, neuron.count));
  return std::exp2(std::ceil(std::log2(needed)));
}

absl::StatusOr<NoiseReport> PropagateNoise(const MachineNetlist& machine, const Places& places, int hidden,
                                           int norm_log2) {
  const double energy_scale = 1.0 / (2.0 * std::exp2(2 * norm_log2) * hidden);
  return Propagation(machine, places, energy_scale).Run();
}

}  // namespace qgpu
