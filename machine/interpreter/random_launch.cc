#include "machine/interpreter/random_launch.h"

#include <algorithm>

#include "common/prng.h"

namespace qgpu {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : prng_(seed) {}

  MachineLaunch Launch() {
    MachineLaunch launch;
    const int blocks = 2 + Below(6);
    launch.program.blocks.resize(blocks);
    for (int b = 0; b < blocks; ++b) {
      MachineBlock& block = launch.program.blocks[b];
      for (int slot = 0; slot < kSlots; ++slot) block.slots[slot] = SomeInstruction(slot);
      block.control = SomeControl(b, blocks);
    }
    launch.block = {1 + Below(Chance(50) ? 4 : 32), 1, 1};
    if (Chance(20)) launch.block = {1 + Below(4), 1 + Below(4), 1 + Below(2)};
    launch.grid = {1 + (Chance(30) ? Below(3) : 0), 1 + (Chance(15) ? Below(2) : 0), 1 + (Chance(15) ? Below(2) : 0)};
    const int parameters = Below(26);
    for (int i = 0; i < parameters; ++i) launch.parameters.push_back(SomeValue());
    const int words = 1 + Below(126);
    for (int i = 0; i < words; ++i) launch.memory.push_back(Chance(30) ? 0 : SomeValue());
    return launch;
  }

 private:
  uint32_t Below(uint32_t bound) { return prng_.Below(bound); }
  bool Chance(uint32_t percent) { return Below(100) < percent; }

  uint32_t SomeValue() {
    switch (Below(6)) {
      case 0:
        return Below(64);
      case 1:
        return -Below(64);
      case 2:
        return Below(1 << 20);
      case 3:
        return 1u << Below(32);
      case 4: {
        const uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 127, 128, 0xffffff7f, 0x7ffff, 0x80000};
        return edges[Below(10)];
      }
      default:
        return prng_.Next32();
    }
  }

  int Source(int slot) {
    if (slot > 0 && Chance(35)) return kSourcePrevious + Below(slot);
    return Chance(10) ? kSourceNone : 1 + Below(Chance(80) ? 4 : 15);
  }

  int Guard(int slot, bool& negate) {
    negate = false;
    if (Chance(50)) return kGuardAlways;
    negate = Chance(50);
    if (slot > 0 && Chance(50)) return kGuardSlot + Below(slot);
    return 1 + Below(Chance(80) ? 3 : 15);
  }

  Instruction SomeInstruction(int slot) {
    Instruction in;
    const auto& ops = AllOps();
    do {
      in.op = ops[Below(ops.size())].op;
    } while (!SlotCanExecute(slot, in.op));
    if (in.op == Op::kNop) return in;
    in.guard = Guard(slot, in.negate);
    const bool predicate_op = in.op == Op::kPSet || in.op == Op::kPAnd || in.op == Op::kPOr || in.op == Op::kPXor;
    if (!predicate_op) {
      in.a = Source(slot);
      switch (Below(4)) {
        case 0:
          in.immediate = SomeValue();
          break;
        case 1:
          in.b = kSourceSpecial + (Chance(40) ? kSpecialLaneId + Below(4) : Below(28));
          break;
        default:
          in.b = Source(slot);
      }
    }
    if (in.op == Op::kMad || in.op == Op::kSt) in.c = Source(slot);
    if (in.op >= Op::kShflUp && in.op <= Op::kShflIdx) {
      in.c = Below(2);
      if (Chance(70)) {
        in.b = 0;
        in.immediate = Below(4);
      }
    }
    if ((in.op == Op::kLd || in.op == Op::kSt) && Chance(95)) {
      in.a = kSourceNone;
      in.b = kSourceNone;
      in.immediate = 4 * (1 + Below(125));
    }
    if (in.op != Op::kSt && Chance(60)) in.dst = 1 + Below(Chance(80) ? 4 : 15);
    return in;
  }

  ControlRow SomeControl(int block, int blocks) {
    ControlRow control;
    control.condition = Guard(kSlots, control.negate);
    control.kind = static_cast<ControlKind>(Chance(60) ? 0 : 1 + Below(2));
    control.target = control.kind == ControlKind::kExit ? 0 : NextBlock(block, blocks);
    control.fall_through = NextBlock(block, blocks);
    if (block + 1 == blocks) {
      control = {};
      control.kind = ControlKind::kExit;
    }
    control.serial = Chance(15);
    control.yield = Chance(15);
    return control;
  }

  int NextBlock(int block, int blocks) {
    return Chance(75) ? std::min(block + 1 + static_cast<int>(Below(2)), blocks - 1) : Below(blocks);
  }

  SplitMix64 prng_;
};

}  // namespace

MachineLaunch RandomLaunch(uint64_t seed) { return Generator(seed).Launch(); }

}  // namespace qgpu
