#include "model/netlist/machine_netlist.h"

#include "model/netlist/machine_builder.h"

namespace qgpu {
namespace {

// Every form of a reader at `time` must be complete before.
absl::Status CheckOrder(const Netlist& net, const SignalTimes& times) {
  const auto check = [&](const Linear& form, int time, const std::string& reader) -> absl::Status {
    for (const auto& term : form.terms) {
      if (times.ready[term.first] >= time) {
        return absl::InternalError(fmt::format("{} reads {} at half-layer {}, but it is complete only after {}", reader,
                                               net.name(term.first), time, times.ready[term.first]));
      }
    }
    return absl::OkStatus();
  };
  for (const Neuron& neuron : net.neurons()) {
    const std::string reader = neuron.outputs.empty() ? "a neuron" : net.name(neuron.outputs[0].signal.id);
    for (const Linear* form : {&neuron.condition, &neuron.count, &neuron.factor}) {
      QGPU_RETURN_IF_ERROR(check(*form, 2 * neuron.layer + 1, reader));
    }
  }
  for (const Head& head : net.heads()) {
    for (const auto* components : {&head.keys, &head.queries, &head.on, &head.off}) {
      for (const auto& component : *components) {
        QGPU_RETURN_IF_ERROR(check(component.condition, 2 * head.layer, head.name));
      }
    }
    QGPU_RETURN_IF_ERROR(check(head.write, 2 * head.layer, head.name));
    QGPU_RETURN_IF_ERROR(check(head.reset, 2 * head.layer, head.name));
  }
  for (size_t i = 0; i < net.signals().size(); ++i) {
    const int old = net.signals()[i].update_of;
    if (old < 0) continue;
    if (times.first[i] == kNever) {
      return absl::InternalError(fmt::format("the update of {} changes nothing", net.name(old)));
    }
    if (times.last_read[old] > times.first[i] || times.ready[old] >= times.first[i]) {
      return absl::InternalError(fmt::format("{} is updated at half-layer {} but read until {}, complete after {}",
                                             net.name(old), times.first[i], times.last_read[old], times.ready[old]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Token> MachineNetlist::DecodeNext(const std::vector<int>& values, bool strict) const {
  int kind = -1, payload = 0, payload_mask = 0, kinds = 0;
  for (int i = 0; i < kTokenKinds; ++i) {
    if (values[next_kind[i].id] == 1) {
      kind = i;
      ++kinds;
    }
  }
  for (int i = 0; i < 12; ++i) {
    payload |= values[next_payload_on[i].id] << i;
    payload_mask |= (values[next_payload_on[i].id] + values[next_payload_off[i].id]) << i;
  }
  if (kinds == 1 && payload_mask == PayloadMask(static_cast<TokenKind>(kind))) {
    return Token{static_cast<TokenKind>(kind), static_cast<uint16_t>(payload)};
  }
  if (!strict) return Token{};
  return absl::InternalError(
      fmt::format("the next token has {} kinds (last {}) and payload mask {:#x}", kinds, kind, payload_mask));
}

absl::StatusOr<MachineNetlist> BuildMachineNetlist() {
  MachineNetlist machine;
  machine.slots = {{true, 1, 2, 6}, {false, 6, 7, 9}, {true, 9, 10, 14}, {false, 14, 15, 17}};
  MachineBuilder builder(machine);
  builder.Front();
  for (int slot = 0; slot < kSlots; ++slot) builder.Slot(slot);
  builder.Late();
  const SignalTimes times = TimesOf(machine.netlist);
  machine.ready_time = times.ready;
  QGPU_RETURN_IF_ERROR(CheckOrder(machine.netlist, times));
  return machine;
}

}  // namespace qgpu
