// Packs the nodes of each basic block into machine blocks of four slots.
//
// Inside a machine block a value travels by forwarding, from a slot to a later one; registers are read as they were
// before the pass and written after it. So a value costs a write-back, which costs tokens, exactly when something in
// another machine block needs it, and the cost of a schedule is its passes plus its write-backs. Schedules are found by
// list scheduling with varied priorities; the cheapest is kept. The variation is seeded, so the result is
// deterministic.
#pragma once

#include <array>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/pack/phi_plan.h"
#include "lowering/ptx_to_blocks/pack/select.h"

namespace qgpu::lower {

// Where a slot finds an operand.
struct Place {
  enum class Kind : uint8_t { kNone, kImmediate, kSpecial, kSlot, kRegister };
  Kind kind = Kind::kNone;
  uint32_t number = 0;  // immediate, special word, slot of this block, or the value whose register it is
  bool operator==(const Place&) const = default;
};

struct SlotPlan {
  bool used = false;
  Op op = Op::kNop;
  Place a, b, c;
  Place guard;  // kNone, kSlot or kRegister
  bool negate = false;
  bool pairs = false;  // of a shuffle: segments of two lanes
  int value = -1;      // the IR value it computes; -1: none
  int variable = -1;   // the phi variable it writes; -1: none
  Source helper;       // what it only brings into reach of later slots; kNone: not a helper
  int origin = -1;
};

struct BlockPlan {
  std::array<SlotPlan, kSlots> slots;
};

struct BasicBlockPlan {
  std::vector<BlockPlan> blocks;
  Place condition;  // of the branch, in or before the last machine block
  bool negate = false;
};

struct SchedulePlan {
  std::vector<BasicBlockPlan> basic_blocks;  // [IR block]
  std::vector<bool> in_register;             // [value] is read from a register somewhere
  std::vector<int> variable_of;              // [value]: phi variables first, then one for each value
  int variables = 0;
  int64_t cost = 0;      // passes and write-backs in half tokens, a loop's body counted eight times
  bool complete = true;  // false: a join rotates more values at once than a machine block can
};

// Tokens that writing each value back takes, in half tokens.
std::vector<int> WriteBackCosts(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts);

// What a schedule is chosen for. Few registers: close to the program's order. Few blocks: where the ROM is full.
enum class PackingGoal { kFewTokens, kFewRegisters, kFewBlocks };

SchedulePlan Schedule(const IrFunction& function, const FlowGraph& flow, const Layout& layout, const Liveness& live,
                      const PhiPlan& phis, const Selection& selection, const std::vector<int>& write_back_costs,
                      PackingGoal goal = PackingGoal::kFewTokens);

}  // namespace qgpu::lower
