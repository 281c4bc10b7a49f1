#include "model/netlist/netlist.h"

#include <algorithm>

namespace qgpu {

Linear& Linear::operator+=(const Linear& other) {
  for (const auto& [id, coefficient] : other.terms) {
    auto found = std::find_if(terms.begin(), terms.end(), [id = id](const auto& term) { return term.first == id; });
    if (found == terms.end()) {
      terms.emplace_back(id, coefficient);
    } else {
      found->second += coefficient;
    }
  }
  constant += other.constant;
  return *this;
}

Linear operator+(Linear a, const Linear& b) {
  a += b;
  return a;
}

Linear operator*(double factor, Linear a) {
  for (auto& term : a.terms) term.second *= factor;
  a.constant *= factor;
  return a;
}

Linear operator-(Linear a, const Linear& b) {
  a += -1.0 * b;
  return a;
}

Literals Equals(const std::vector<Signal>& bits, uint32_t value) {
  Literals literals;
  for (size_t i = 0; i < bits.size(); ++i) literals.push_back(value >> i & 1 ? Linear(bits[i]) : Not(bits[i]));
  return literals;
}

Literals operator+(Literals a, const Literals& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Linear Sum(const std::vector<Signal>& signals) {
  Linear sum;
  for (Signal s : signals) sum += s;
  return sum;
}

Linear All(const Literals& literals) {
  Linear sum = 1.0 - static_cast<double>(literals.size());
  for (const Linear& literal : literals) sum += literal;
  return sum;
}

Signal Netlist::Add(const std::string& name, int max, int update_of) {
  signals_.push_back({name, max, update_of, nullptr});
  return {static_cast<int32_t>(signals_.size()) - 1};
}

Signal Netlist::Update(Signal old) {
  const SignalInfo info = signals_[old.id];
  return Add(info.name + "'", info.max, old.id);
}

std::vector<Signal> Netlist::Update(const std::vector<Signal>& old) {
  std::vector<Signal> updated;
  for (Signal s : old) updated.push_back(Update(s));
  return updated;
}

std::vector<Signal> Netlist::Bits(const std::string& name, int count) {
  std::vector<Signal> bits;
  for (int i = 0; i < count; ++i) bits.push_back(Bit(name + "[" + std::to_string(i) + "]"));
  return bits;
}

Signal Netlist::Input(const std::string& name, std::function<int(Token)> value) {
  const Signal signal = Bit(name);
  signals_[signal.id].embedding = std::move(value);
  return signal;
}

Neuron& Netlist::AddNeuron(Neuron::Kind kind, int layer, const Literals& literals, std::vector<Output> outputs) {
  Neuron& neuron = neurons_.emplace_back();
  neuron.kind = kind;
  neuron.layer = layer;
  neuron.condition = All(literals);
  neuron.literals = static_cast<int>(literals.size());
  neuron.outputs = std::move(outputs);
  return neuron;
}

void Netlist::And(int layer, const Literals& literals, std::vector<Output> outputs) {
  AddNeuron(Neuron::Kind::kAnd, layer, literals, std::move(outputs));
}

void Netlist::Flip(int layer, const Literals& literals, Signal bit, Signal target) {
  And(layer, literals + Literals{Not(bit)}, {{target}});
  And(layer, literals + Literals{bit}, {{target, -1}});
}

void Netlist::Tolerate(size_t first) {
  for (size_t i = first; i < neurons_.size(); ++i) neurons_[i].tolerated = true;
}

void Netlist::Restoring(int layer, const Literals& literals, std::vector<Output> outputs) {
  AddNeuron(Neuron::Kind::kAnd, layer, literals, std::move(outputs)).restore = true;
}

void Netlist::Step(int layer, const Literals& literals, const Linear& count, std::vector<Output> outputs) {
  AddNeuron(Neuron::Kind::kStep, layer, literals, std::move(outputs)).count = count;
}

void Netlist::Linearly(int layer, const Linear& factor, std::vector<Output> outputs) {
  AddNeuron(Neuron::Kind::kLinear, layer, {}, std::move(outputs)).factor = factor;
}

Head& Netlist::AddHead(const std::string& name, int layer) {
  heads_.push_back({});
  heads_.back().name = name;
  heads_.back().layer = layer;
  return heads_.back();
}

void StoreBits(Head& head, int first, const std::vector<Linear>& bits) {
  for (size_t i = 0; i < bits.size(); ++i) {
    head.on.push_back({first + static_cast<int>(i), bits[i]});
    head.off.push_back({first + static_cast<int>(i), Not(bits[i])});
  }
}

void PadCells(Head& head, int first, int count, const Linear& condition) {
  for (int i = 0; i < count; ++i) head.on.push_back({first + i, condition});
}

SignalTimes TimesOf(const Netlist& net) {
  const size_t count = net.signals().size();
  SignalTimes times = {std::vector<int>(count, kNever), std::vector<int>(count, -1), std::vector<int>(count, -1)};
  const auto contributes = [&](Signal s, int time) {
    times.first[s.id] = std::min(times.first[s.id], time);
    times.ready[s.id] = std::max(times.ready[s.id], time);
  };
  const auto reads = [&](const Linear& form, int time) {
    for (const auto& term : form.terms) times.last_read[term.first] = std::max(times.last_read[term.first], time);
  };
  for (size_t i = 0; i < count; ++i) {
    if (net.signals()[i].embedding) contributes({static_cast<int32_t>(i)}, -1);
  }
  for (const Neuron& neuron : net.neurons()) {
    const int time = 2 * neuron.layer + 1;
    for (const Linear* form : {&neuron.condition, &neuron.count, &neuron.factor}) reads(*form, time);
    for (const Output& out : neuron.outputs) contributes(out.signal, time);
  }
  for (const Head& head : net.heads()) {
    const int time = 2 * head.layer;
    for (const auto* components : {&head.keys, &head.queries, &head.on, &head.off}) {
      for (const auto& component : *components) reads(component.condition, time);
    }
    reads(head.write, time);
    reads(head.reset, time);
    for (const auto& tap : head.taps) contributes(tap.target, time);
  }
  // An update starts complete.
  for (size_t i = 0; i < count; ++i) {
    const int old = net.signals()[i].update_of;
    if (old >= 0) times.ready[i] = std::max(times.ready[i], times.ready[old]);
  }
  return times;
}

}  // namespace qgpu
