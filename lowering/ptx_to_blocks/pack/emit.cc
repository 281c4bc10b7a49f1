#include "lowering/ptx_to_blocks/pack/emit.h"

#include <algorithm>

#include "lowering/ptx_to_blocks/pack/allocate.h"

namespace qgpu::lower {
namespace {

constexpr int kExits = -1;

class Emitter {
 public:
  Emitter(const IrFunction& function, const FlowGraph& flow, const Layout& layout, SchedulePlan plan,
          const MachineGeometry& geometry)
      : f_(function), flow_(flow), order_(layout.order), plan_(std::move(plan)), geometry_(geometry) {}

  absl::StatusOr<Program> Run() {
    ForceBlocks();
    FindWaits();
    LayOut();
    if (static_cast<int>(flat_.size()) > geometry_.blocks) {
      absl::Status status = absl::InvalidArgumentError(
          fmt::format("needs {} machine blocks, the ROM holds {}", flat_.size(), geometry_.blocks));
      status.SetPayload(kBlockShortage, absl::Cord(std::to_string(flat_.size() - geometry_.blocks)));
      return status;
    }
    QGPU_ASSIGN_OR_RETURN(allocation_, AllocateRegisters(f_, plan_, flat_, geometry_));
    for (size_t i = 0; i < flat_.size(); ++i) EmitBlock(static_cast<int>(i));
    return std::move(program_);
  }

 private:
  bool Empty(int block) const { return plan_.basic_blocks[block].blocks.empty(); }

  // The basic block with machine blocks that going to `block` ends up in, or kExits. -2: nowhere, an empty cycle.
  int Resolve(int block) const {
    for (size_t steps = 0; steps <= f_.blocks.size(); ++steps) {
      if (!Empty(block)) return block;
      const Terminator& end = f_.blocks[block].end;
      if (end.kind == TerminatorKind::kExit) return kExits;
      block = end.target;
    }
    return -2;
  }

  // Some basic blocks without instructions need a machine block all the same: those that branch or wait, the start when
  // it is not what comes first, and one in each cycle.
  void ForceBlocks() {
    for (int block : order_) {
      const TerminatorKind kind = f_.blocks[block].end.kind;
      const bool acts = kind == TerminatorKind::kBarrier || kind == TerminatorKind::kBranch || f_.blocks[block].stays;
      if (Empty(block) && (acts || Resolve(block) == -2)) plan_.basic_blocks[block].blocks.emplace_back();
    }
    for (int block : order_) {  // a barrier needs a place to go on at
      const Terminator& end = f_.blocks[block].end;
      if (end.kind == TerminatorKind::kBarrier && Resolve(end.target) == kExits) {
        plan_.basic_blocks[end.target].blocks.emplace_back();
      }
    }
    const int first = *std::find_if(order_.begin(), order_.end() - 1, [&](int b) { return !Empty(b); });
    const int entry = order_[0];
    if (Resolve(entry) != first || Empty(first) || FirstLiesLast(first)) {
      if (Empty(entry)) plan_.basic_blocks[entry].blocks.emplace_back();
    }
  }

  // A loop that changes no value of its own and reads memory waits for other threads: where it turns, other machine
  // warps get to run.
  void FindWaits() {
    waits_.assign(f_.blocks.size(), false);
    for (int latch : order_) {
      for (int header : flow_.successors[latch]) {
        if (!flow_.Dominates(header, latch) || !ReadsWithoutChange(header, latch)) continue;
        if (!Empty(latch)) waits_[latch] = true;
        if (!Empty(latch) || latch == header) continue;
        for (int before : flow_.predecessors[latch]) waits_[before] = true;
      }
    }
  }

  bool ReadsWithoutChange(int header, int latch) const {
    const std::vector<int>& first = f_.blocks[header].instructions;
    if (!first.empty() && f_.at(first[0]).op == IrOp::kPhi) return false;
    std::vector<bool> inside(f_.blocks.size(), false);
    std::vector<int> work = {latch};
    inside[header] = true;
    bool reads = Reads(header);
    while (!work.empty()) {
      const int block = work.back();
      work.pop_back();
      if (inside[block]) continue;
      inside[block] = true;
      if (f_.blocks[block].end.kind == TerminatorKind::kBarrier) return false;
      reads = reads || Reads(block);
      for (int predecessor : flow_.predecessors[block]) work.push_back(predecessor);
    }
    return reads && f_.blocks[header].end.kind != TerminatorKind::kBarrier;
  }

  bool Reads(int block) const {
    const std::vector<int>& list = f_.blocks[block].instructions;
    return std::any_of(list.begin(), list.end(), [&](int value) { return f_.at(value).op == IrOp::kLoad; });
  }

  int FlatOf(int basic_block) const { return first_flat_[basic_block]; }

  // Whether the first machine block of a basic block lies behind its others. In a serial one it lets one lane go at a
  // time, and as the others wait at a higher number than what follows, that lane goes on alone to the end.
  bool FirstLiesLast(int block) const { return f_.blocks[block].serial && plan_.basic_blocks[block].blocks.size() > 1; }

  void LayOut() {
    first_flat_.assign(f_.blocks.size(), -1);
    for (int block : order_) {
      std::vector<BlockPlan>& plans = plan_.basic_blocks[block].blocks;
      if (plans.empty()) continue;
      const int start = static_cast<int>(flat_.size()), count = static_cast<int>(plans.size());
      const int turn = FirstLiesLast(block) ? 1 : 0;
      first_flat_[block] = turn == 0 ? start : start + count - 1;
      for (int i = 0; i < count; ++i) {
        const int number = (i + turn) % count;
        flat_.push_back({&plans[number], {}, {}});
        home_.push_back(block);
        next_.push_back(number == count - 1 ? -1 : turn != 0 && number == 0 ? start : start + i + 1);
      }
    }
    for (size_t i = 0; i < flat_.size(); ++i) {
      if (next_[i] >= 0) {
        flat_[i].successors = {next_[i]};
        continue;
      }
      flat_[i].condition = plan_.basic_blocks[home_[i]].condition;
      for (int successor : flow_.successors[home_[i]]) {
        const int to = Resolve(successor);
        if (to != kExits) flat_[i].successors.push_back(FlatOf(to));
      }
    }
  }

  ControlRow Control(int flat) const {
    ControlRow row;
    const int block = home_[flat];
    row.serial = f_.blocks[block].serial && flat == FlatOf(block);
    row.yield = waits_[block] && next_[flat] < 0;
    if (next_[flat] >= 0) {
      row.target = row.fall_through = next_[flat];
      return row;
    }
    const Terminator& end = f_.blocks[block].end;
    const int taken = end.kind == TerminatorKind::kExit ? kExits : Resolve(end.target);
    const int other = end.kind == TerminatorKind::kBranch ? Resolve(end.other) : taken;
    if (end.kind == TerminatorKind::kBarrier) {
      row.kind = ControlKind::kBarrier;
      row.target = row.fall_through = FlatOf(taken);
      return row;
    }
    if (taken == kExits && other == kExits) {
      row.kind = ControlKind::kExit;
      return row;
    }
    if (taken == other) {
      row.target = row.fall_through = FlatOf(taken);
      return row;
    }
    const BasicBlockPlan& plan = plan_.basic_blocks[block];
    row.condition = GuardCode(plan.condition);
    row.negate = plan.negate;
    if (taken == kExits) {
      row.kind = ControlKind::kExit;
      row.fall_through = FlatOf(other);
    } else if (other == kExits) {
      row.kind = ControlKind::kExit;
      row.negate = !row.negate;
      row.fall_through = FlatOf(taken);
    } else {
      row.target = FlatOf(taken);
      row.fall_through = FlatOf(other);
    }
    return row;
  }

  int Number(const Place& place) const { return allocation_.number[plan_.variable_of[place.number]]; }

  int GuardCode(const Place& place) const {
    switch (place.kind) {
      case Place::Kind::kSlot:
        return kGuardSlot + static_cast<int>(place.number);
      case Place::Kind::kRegister:
        return Number(place);
      default:
        return kGuardAlways;
    }
  }

  int SourceCode(const Place& place, int slot) const {
    switch (place.kind) {
      case Place::Kind::kSlot:
        return kSourcePrevious + slot - static_cast<int>(place.number) - 1;
      case Place::Kind::kRegister:
        return Number(place);
      case Place::Kind::kSpecial:
        return kSourceSpecial + static_cast<int>(place.number);
      default:
        return kSourceNone;
    }
  }

  void EmitBlock(int flat) {
    MachineBlock block;
    std::array<SlotOrigin, kSlots + 1> origins;
    for (int s = 0; s < kSlots; ++s) {
      const SlotPlan& slot = flat_[flat].plan->slots[s];
      if (!slot.used) continue;
      Instruction& in = block.slots[s];
      in.op = slot.op;
      in.a = SourceCode(slot.a, s);
      in.b = SourceCode(slot.b, s);
      in.c = slot.pairs ? 1 : SourceCode(slot.c, s);
      if (slot.b.kind == Place::Kind::kImmediate) in.immediate = slot.b.number;
      in.guard = GuardCode(slot.guard);
      in.negate = slot.negate;
      const int variable = WrittenVariable(plan_, slot);
      if (variable >= 0) in.dst = allocation_.number[variable];
      if (slot.origin >= 0) origins[s] = f_.origins[slot.origin];
    }
    block.control = Control(flat);
    const bool last = next_[flat] < 0;
    const int origin = f_.blocks[home_[flat]].end.origin;
    if (last && origin >= 0) origins[kSlots] = f_.origins[origin];
    program_.blocks.push_back(block);
    program_.origins.push_back(origins);
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  const std::vector<int>& order_;
  SchedulePlan plan_;
  const MachineGeometry& geometry_;
  std::vector<FlatBlock> flat_;
  std::vector<int> home_;        // [flat]: IR block
  std::vector<int> first_flat_;  // [IR block] with machine blocks
  std::vector<bool> waits_;      // [IR block]: lets other machine warps go first at its end
  std::vector<int> next_;        // [flat]: what follows in the same IR block; -1: it is the last
  Allocation allocation_;
  Program program_;
};

}  // namespace

absl::StatusOr<Program> EmitProgram(const IrFunction& function, const FlowGraph& flow, const Layout& layout,
                                    SchedulePlan plan, const MachineGeometry& geometry) {
  return Emitter(function, flow, layout, std::move(plan), geometry).Run();
}

}  // namespace qgpu::lower
