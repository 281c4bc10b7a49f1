// The next token: its kind and its payload.
#include "model/netlist/late_builder.h"

namespace qgpu {

// Payload bit `bit` of the next token is `value` where `when` holds.
void LateBuilder::PayloadBit(int bit, const Literals& when, const Linear& value) {
  net_.And(e_ + 3, when + Literals{value}, {{m_.machine.next_payload_on[bit]}});
  net_.And(e_ + 3, when + Literals{Not(value)}, {{m_.machine.next_payload_off[bit]}});
}

// Payload bits first .. first + count - 1 are the digits of `value`.
void LateBuilder::PayloadNumber(int first, int count, const Literals& when, int value) {
  std::vector<Output> outputs;
  for (int i = 0; i < count; ++i) {
    outputs.push_back(
        {value >> i & 1 ? m_.machine.next_payload_on[first + i] : m_.machine.next_payload_off[first + i]});
  }
  net_.And(e_ + 3, when, outputs);
}

void LateBuilder::NextToken() {
  MachineNetlist& machine = m_.machine;
  machine.next_kind = net_.Update(machine.kind);
  machine.next_payload_on = net_.Update(machine.payload_on);
  machine.next_payload_off = net_.Update(machine.payload_off);
  for (const auto& [old, next] : {std::pair{machine.kind, machine.next_kind},
                                  {machine.payload_on, machine.next_payload_on},
                                  {machine.payload_off, machine.next_payload_off}}) {
    for (size_t i = 0; i < old.size(); ++i) net_.Linearly(e_ + 3, Linear(old[i]), {{next[i], -1}});
  }
  NextOfPass();
  NextOfChain();
  NextOfSchedule();
}

void LateBuilder::NextOfPass() {
  ChooseKind(TokenKind::kTrap, {do_trap_});
  for (int i = 0; i < 2; ++i) {
    PayloadBit(i, {do_trap_}, items_.trap_kind[i]);
    PayloadBit(8 + i, {do_trap_}, items_.trap_lane[i]);
    PayloadBit(10 + i, {do_trap_}, items_.trap_slot[i]);
    PayloadBit(8 + i, {do_val0_}, next_lane_[i]);
    PayloadBit(10 + i, {Linear(do_val0_) + do_val0u_ + do_pred_}, next_slot_[i]);
  }
  ChooseKind(TokenKind::kVal0, {do_val0_});
  ChooseKind(TokenKind::kVal0U, {do_val0u_});
  ChooseKind(TokenKind::kVal1, {do_val1_});
  ChooseKind(TokenKind::kVal2, {do_val2_});
  ChooseKind(TokenKind::kPred, {do_pred_});
  ChooseKind(TokenKind::kMem, {do_mem_});
  for (int side = 0; side < 2; ++side) {
    const Linear lane = side == 0 ? Not(odd_lane_) : Linear(odd_lane_);
    const std::vector<Signal>& result = side == 0 ? even_ : odd_;
    for (int k = 0; k < 8; ++k) PayloadBit(k, {Linear(do_val0_) + do_val0u_, lane}, result[k]);
    for (int k = 0; k < 12; ++k) PayloadBit(k, {do_val1_, lane}, result[8 + k]);
    for (int k = 0; k < 12; ++k) PayloadBit(k, {do_val2_, lane}, result[20 + k]);
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int q = 0; q < kLaneCount; ++q) {
      PayloadBit(q, Literals{do_pred_} + Equals(next_slot_, slot), predicates_[slot][q]);
      if (slot % 2 == 0) continue;
      const Literals here = Literals{do_mem_} + Equals(next_slot_, slot) + Equals(next_lane_, q);
      for (int bit = 0; bit < 7; ++bit) PayloadBit(bit, here, bases_[slot][q][bit]);
    }
  }
}

void LateBuilder::NextOfChain() {
  ChooseKind(TokenKind::kWarp, {Linear(do_next_warp_) + do_warp0_});
  for (int i = 0; i < 4; ++i) PayloadBit(i, {Linear(do_next_warp_) + do_warp0_}, next_lanes_[i]);
  PayloadNumber(9, 3, {do_warp0_}, 0);
  for (int w = 0; w + 1 < kWarps; ++w) {
    PayloadNumber(9, 3, Literals{do_next_warp_} + Equals(Slice(m_.f, 9, 3), w), w + 1);
  }
  ChooseKind(TokenKind::kCtaY, {do_ctay_});
  PayloadNumber(0, 8, {do_ctay_, last_[1]}, 0);
  for (int i = 0; i < 8; ++i) PayloadBit(i, {do_ctay_, Not(last_[1])}, successor_[1][i]);
  ChooseKind(TokenKind::kCtaZ, {do_ctaz_});
  for (int i = 0; i < 6; ++i) PayloadBit(i, {do_ctaz_}, successor_[2][i]);
}

void LateBuilder::NextOfSchedule() {
  const Linear may = m_.IsWork() + Kind(TokenKind::kSwitchWarp) + Kind(TokenKind::kBar) + Kind(TokenKind::kWarp);
  const Linear decided =
      Linear(do_trap_) + do_val0_ + do_val0u_ + do_val1_ + do_val2_ + do_pred_ + do_mem_ + do_next_warp_;
  const Literals schedule = {may, Not(decided)};

  const Literals exec = schedule + Literals{any_here_, Not(switches_)};
  ChooseKind(TokenKind::kExec, exec);
  for (int q = 0; q < kLaneCount; ++q) {
    PayloadBit(q, exec, run_[q]);
    Literals lowest = exec + Literals{run_[q]};
    for (int lower = 0; lower < q; ++lower) lowest.push_back(Not(run_[lower]));
    for (int i = 0; i < 5; ++i) PayloadBit(4 + i, lowest, current_[q].block[i]);
  }

  const Literals other_warp = schedule + Literals{switches_};
  ChooseKind(TokenKind::kSwitchWarp, other_warp);
  for (int w = 0; w < kWarps; ++w) {
    Literals from = other_warp + Equals(m_.warp, w);
    for (int step = 1; step < kWarps; ++step) {
      const int to = (w + step) % kWarps;
      PayloadNumber(9, 3, from + Literals{warp_ready_[to]}, to);
      from.push_back(Not(warp_ready_[to]));
    }
  }

  const Literals nobody = schedule + Literals{Not(any_here_), Not(switches_)};
  const Literals waiting = nobody + Literals{alive_};
  ChooseKind(TokenKind::kBar, waiting + Literals{Not(apart_)});
  PayloadBit(0, waiting + Literals{Not(apart_)}, Not(phase_));
  ChooseKind(TokenKind::kTrap, waiting + Literals{apart_});
  PayloadNumber(0, 2, waiting + Literals{apart_}, static_cast<int>(TrapKind::kBarrierDivergence));
  PayloadNumber(8, 4, waiting + Literals{apart_}, 0);

  const Literals over = nobody + Literals{Not(alive_)};
  ChooseKind(TokenKind::kDone, over + Literals{last_[0], last_[1], last_[2]});
  ChooseKind(TokenKind::kCtaX, over + Literals{Not(last_[0])});
  for (int i = 0; i < 8; ++i) PayloadBit(i, over + Literals{Not(last_[0])}, successor_[0][i]);
  for (const Literals& more : {Literals{last_[0], Not(last_[1])}, Literals{last_[0], last_[1], Not(last_[2])}}) {
    ChooseKind(TokenKind::kCtaX, over + more);
    PayloadNumber(0, 8, over + more, 0);
  }
}

}  // namespace qgpu
