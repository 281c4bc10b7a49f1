#include "model/netlist/evaluator.h"

#include <algorithm>
#include <cmath>

namespace qgpu {

// Neurons and heads by layer, and which signals start as another at which time.
struct NetlistEvaluator::Plan {
  std::vector<std::vector<const Neuron*>> neurons;
  std::vector<std::vector<int>> heads;
  std::vector<std::vector<int32_t>> updates;  // by time + 1
};

namespace {

double Value(const Linear& form, const std::vector<int>& values) {
  double sum = form.constant;
  for (const auto& [id, coefficient] : form.terms) sum += coefficient * values[id];
  return sum;
}

bool Holds(const Linear& condition, const std::vector<int>& values) { return Value(condition, values) > 0.5; }

}  // namespace

NetlistEvaluator::NetlistEvaluator(const MachineNetlist& machine) : machine_(machine), plan_(std::make_unique<Plan>()) {
  const Netlist& netlist = machine.netlist;
  values_.resize(netlist.signals().size());
  rows_.resize(netlist.heads().size());
  for (auto& head : rows_) {
    for (auto& row : head) row.fill(0);
  }
  plan_->neurons.resize(netlist.layers());
  plan_->heads.resize(netlist.layers());
  plan_->updates.resize(2 * netlist.layers() + 1);
  const SignalTimes times = TimesOf(netlist);
  for (const Neuron& neuron : netlist.neurons()) plan_->neurons[neuron.layer].push_back(&neuron);
  for (size_t i = 0; i < netlist.heads().size(); ++i) {
    plan_->heads[netlist.heads()[i].layer].push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    if (netlist.signals()[i].update_of >= 0 && times.first[i] < 2 * netlist.layers()) {
      plan_->updates[times.first[i] + 1].push_back(static_cast<int32_t>(i));
    }
  }
}

NetlistEvaluator::~NetlistEvaluator() = default;

int NetlistEvaluator::value(Signal signal) const { return values_[signal.id]; }

std::array<int, 64> NetlistEvaluator::ReadRow(int head, int row) const {
  std::array<int, 64> cells;
  for (int i = 0; i < 64; ++i) cells[i] = rows_[head][row][i];
  return cells;
}

absl::StatusOr<Token> NetlistEvaluator::Step(Token token, bool strict) {
  const Netlist& netlist = machine_.netlist;
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto& embedding = netlist.signals()[i].embedding;
    values_[i] = embedding ? embedding(token) : 0;
  }
  std::vector<std::pair<int32_t, int>> deltas;
  const auto apply = [&](int time) -> absl::Status {
    for (int32_t id : plan_->updates[time + 1]) values_[id] = values_[netlist.signals()[id].update_of];
    for (const auto& [id, delta] : deltas) values_[id] += delta;
    for (const auto& [id, delta] : deltas) {
      if (strict && (values_[id] < 0 || values_[id] > netlist.signals()[id].max) && machine_.ready_time[id] <= time) {
        return absl::InternalError(fmt::format("signal {} is {} at half-layer {} of {}", netlist.name(id), values_[id],
                                               time, FormatToken(token)));
      }
    }
    deltas.clear();
    return absl::OkStatus();
  };
  for (int layer = 0; layer < netlist.layers(); ++layer) {
    for (int index : plan_->heads[layer]) {
      const Head& head = netlist.heads()[index];
      auto& rows = rows_[index];
      if (Holds(head.reset, values_)) {
        for (auto& row : rows) row.fill(0);
      }
      if (Holds(head.write, values_)) {
        int written = -1;
        for (const auto& key : head.keys) {
          if (!Holds(key.condition, values_)) continue;
          if (written >= 0) return absl::InternalError(fmt::format("head {} writes two rows", head.name));
          written = key.index;
        }
        if (written >= 0) {
          rows[written].fill(0);
          for (const auto& on : head.on) rows[written][on.index] = Holds(on.condition, values_);
          for (const auto& off : head.off) rows[written][off.index + 64] = Holds(off.condition, values_);
        }
      }
      int read_rows = 0, rails = 0, written_rows = 0;
      std::array<int, 64> read = {};
      for (const auto& query : head.queries) {
        if (!Holds(query.condition, values_)) continue;
        ++read_rows;
        int in_row = 0;
        for (int i = 0; i < 128; ++i) in_row += rows[query.index][i];
        for (int i = 0; i < 64; ++i) read[i] += rows[query.index][i];
        rails += in_row;
        written_rows += in_row > 0;
      }
      if (strict && rails != 0 && rails != 64) {
        return absl::InternalError(fmt::format("head {} reads {} rails of {} rows ({} written) at {}", head.name, rails,
                                               read_rows, written_rows, FormatToken(token)));
      }
      for (const auto& tap : head.taps) {
        if (read[tap.cell] != 0) deltas.emplace_back(tap.target.id, read[tap.cell]);
      }
    }
    QGPU_RETURN_IF_ERROR(apply(2 * layer));
    for (const Neuron* neuron : plan_->neurons[layer]) {
      if (!Holds(neuron->condition, values_)) continue;
      double value = 1;
      if (neuron->kind == Neuron::Kind::kStep) {
        if (!Holds(neuron->count, values_)) continue;
      } else {
        value = Value(neuron->factor, values_);
      }
      for (const Output& out : neuron->outputs) {
        deltas.emplace_back(out.signal.id, static_cast<int>(std::lround(out.weight * value)));
      }
    }
    QGPU_RETURN_IF_ERROR(apply(2 * layer + 1));
  }
  return machine_.DecodeNext(values_, strict);
}

}  // namespace qgpu
