#include "machine/interpreter/interpreter.h"

#include <set>

#include "gtest/gtest.h"

namespace qgpu {
namespace {

constexpr int P(int parameter) { return kSourceSpecial + kSpecialFirstParameter + parameter; }
constexpr int kTid = kSourceSpecial + kSpecialTidX, kCta = kSourceSpecial + kSpecialCtaX;
constexpr int kPrev = kSourcePrevious, kTwo = kSourceTwoBack;

Instruction I(Op op, int dst = 0, int a = 0, int b = 0, int c = 0, uint32_t imm = 0, int guard = 0,
              bool negate = false) {
  return {op, dst, a, b, c, guard, negate, imm};
}
constexpr ControlRow kExitRow = {0, false, ControlKind::kExit};

// The dot product of protocol.md, counting the byte index up to zero: 16 tokens.
TEST(Interpreter, DotOfThree) {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kSetLtS, 0, 0, P(3)), I(Op::kAdd, 1), I(Op::kAdd, 2, 0, P(4))}, {16, false, ControlKind::kGoto, 1, 2}},
      {{I(Op::kLd, 0, 2, P(0)), I(Op::kLd, 0, 2, P(1)), I(Op::kMad, 1, kTwo, kPrev, 1), I(Op::kAdd, 2, 2, 0, 0, 4)},
       {19, false, ControlKind::kGoto, 1, 2}},
      {{I(Op::kNop), I(Op::kSt, 0, 0, P(2), 1)}, kExitRow}};
  launch.parameters = {16, 28, 28, 3, static_cast<uint32_t>(-12)};
  launch.memory = {0, 1, 2, 3, 4, 5, 6, 0};
  const MachineRun run = Interpret(launch, 1000);
  EXPECT_EQ(run.end, LaunchEnd::kDone);
  EXPECT_EQ(run.state.memory[7], 32u);
  EXPECT_EQ(run.tokens.size(), 16u);
  EXPECT_EQ(run.passes, 5);
}

MachineLaunch VectorAdd(int threads, int grid) {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kAdd, 0, 0, kCta), {}, I(Op::kMad, 0, kTwo, 0, 0, threads), I(Op::kAdd, 1, kPrev, kTid)},
       {0, false, ControlKind::kGoto, 1, 1}},
      {{I(Op::kSetLtS, 0, 1, P(3))}, {16, true, ControlKind::kExit, 0, 2}},
      {{I(Op::kMad, 0, 1, 0, 0, 4), I(Op::kLd, 0, kPrev, P(0)), I(Op::kLd, 0, kTwo, P(1)), I(Op::kAdd, 2, kTwo, kPrev)},
       {0, false, ControlKind::kGoto, 3, 3}},
      {{I(Op::kMad, 0, 1, 0, 0, 4), I(Op::kSt, 0, kPrev, P(2), 2)}, kExitRow}};
  launch.block = {static_cast<uint32_t>(threads), 1, 1};
  launch.grid = {static_cast<uint32_t>(grid), 1, 1};
  launch.parameters = {4, 36, 68, 8};
  launch.memory = {0};
  for (int i = 1; i <= 8; ++i) launch.memory.push_back(i);
  for (int i = 1; i <= 8; ++i) launch.memory.push_back(10 * i);
  return launch;
}

TEST(Interpreter, VectorAddOverWarpsAndThreadBlocks) {
  for (const auto& [threads, grid, tokens] : {std::tuple{8, 1, 36}, {4, 2, 37}}) {
    const MachineRun run = Interpret(VectorAdd(threads, grid), 1000);
    EXPECT_EQ(run.end, LaunchEnd::kDone);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(run.state.memory[17 + i], 11u * (i + 1));
    EXPECT_EQ(static_cast<int>(run.tokens.size()), tokens);
  }
}

TEST(Interpreter, SerialBlockIsAtomic) {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kAdd, 0, 0, kTid), I(Op::kAdd, 1, kPrev, 0, 0, 1)}, {0, false, ControlKind::kGoto, 1, 1}},
      {{I(Op::kLd, 2, 0, P(0)), {}, I(Op::kAdd, 0, kTwo, 1), I(Op::kSt, 0, 0, P(0), kPrev)},
       {0, false, ControlKind::kGoto, 2, 2, true}},
      {{I(Op::kAdd, 0, 0, kTid), {}, I(Op::kMad, 0, kTwo, 0, 0, 4), I(Op::kSt, 0, kPrev, P(1), 2)}, kExitRow}};
  launch.block = {8, 1, 1};
  launch.parameters = {4, 8};
  launch.memory = {0, 100};
  const MachineRun run = Interpret(launch, 1000);
  EXPECT_EQ(run.state.memory[1], 136u);
  EXPECT_EQ(run.tokens.size(), 60u);
  const uint32_t old[8] = {100, 101, 103, 106, 110, 115, 121, 128};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(run.state.memory[2 + i], old[i]);
}

TEST(Interpreter, BarrierOrdersWarps) {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kAdd, 0, 0, kTid), {}, I(Op::kMad, 1, kTwo, 0, 0, 4), I(Op::kSt, 0, kPrev, P(0), kPrev)},
       {0, false, ControlKind::kBarrier, 1, 1}},
      {{I(Op::kSub, 0, 0, 1), I(Op::kLd, 0, kPrev, 0, 0, 32), {}, I(Op::kSt, 0, 1, P(1), kTwo)}, kExitRow}};
  launch.block = {8, 1, 1};
  launch.parameters = {4, 64};
  launch.memory = {0};
  const MachineRun run = Interpret(launch, 1000);
  EXPECT_EQ(run.end, LaunchEnd::kDone);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(run.state.memory[16 + i], 28u - 4 * i);
}

TEST(Interpreter, TrapsCommitNothingAndSayWhere) {
  const struct {
    uint32_t address;
    TrapKind kind;
  } cases[] = {{4 * 126, TrapKind::kOutOfRange},
               {0, TrapKind::kOutOfRange},
               {6, TrapKind::kMisaligned},
               {0x80000000, TrapKind::kOutOfRange}};
  for (const auto& c : cases) {
    MachineLaunch launch;
    launch.program.blocks = {{{I(Op::kAdd, 1, 0, 0, 0, 7), I(Op::kLd, 2, 0, 0, 0, c.address)}, kExitRow}};
    launch.block = {2, 1, 1};
    launch.memory = {0};
    const MachineRun run = Interpret(launch, 1000);
    ASSERT_EQ(run.end, LaunchEnd::kTrap);
    EXPECT_EQ(run.trap->kind, c.kind);
    EXPECT_EQ(run.trap->slot, 1);
    EXPECT_EQ(run.trap->address, c.address);
    EXPECT_EQ(run.state.registers[0][0][1], 0u);
    EXPECT_EQ(run.tokens.size(), 2u);
  }
}

TEST(Interpreter, BarrierDivergenceTraps) {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kAdd, 0, 0, kTid), I(Op::kSetLtS, 0, kPrev, 0, 0, 2)}, {17, false, ControlKind::kGoto, 1, 2}},
      {{}, {0, false, ControlKind::kBarrier, 3, 3}},
      {{}, {0, false, ControlKind::kBarrier, 4, 4}},
      {{}, kExitRow},
      {{}, kExitRow}};
  launch.block = {4, 1, 1};
  launch.memory = {0};
  const MachineRun run = Interpret(launch, 1000);
  EXPECT_EQ(run.tokens.back(), Token::Trap(TrapKind::kBarrierDivergence, 0, 0));
  ASSERT_TRUE(run.trap.has_value());
  EXPECT_NE(run.trap->thread, run.trap->other_thread);
  EXPECT_EQ((std::set<int>{run.trap->block, run.trap->other_block}), (std::set<int>{1, 2}));
}

TEST(Interpreter, EndlessLoopEndsAtTheBudget) {
  MachineLaunch launch;
  launch.program.blocks = {{{}, {}}};
  launch.memory = {0};
  const MachineRun run = Interpret(launch, 50);
  EXPECT_EQ(run.end, LaunchEnd::kBudget);
  EXPECT_EQ(run.tokens.size(), 50u);
}

TEST(EvaluateOp, EdgesOfTheOps) {
  const auto value = [](Op op, uint32_t a, uint32_t b) { return EvaluateOp(op, a, b, 0, true, false).value; };
  EXPECT_EQ(value(Op::kShl, 1, 31), 0x80000000u);
  EXPECT_EQ(value(Op::kShl, 1, 32), 0u);
  EXPECT_EQ(value(Op::kShr, 0x80000000, 0xffffffff), 0u);
  EXPECT_EQ(value(Op::kSar, 0x80000000, 40), 0xffffffffu);
  EXPECT_EQ(value(Op::kMinS, 0x80000000, 1), 0x80000000u);
  EXPECT_EQ(value(Op::kMinU, 0x80000000, 1), 1u);
  EXPECT_EQ(value(Op::kClz, 0, 0), 32u);
  EXPECT_EQ(value(Op::kPopc, 0xffffffff, 0), 32u);
  EXPECT_EQ(value(Op::kBrev, 1, 0), 0x80000000u);
  EXPECT_TRUE(EvaluateOp(Op::kSetLtS, 0x80000000, 0, 0, true, false).predicate);
  EXPECT_FALSE(EvaluateOp(Op::kSetLtU, 0x80000000, 0, 0, true, false).predicate);
  EXPECT_FALSE(EvaluateOp(Op::kSetEq, 3, 3, 0, false, false).predicate);
  EXPECT_EQ(EvaluateOp(Op::kMad, 0xffffffff, 3, 5, true, false).value, 2u);
}

}  // namespace
}  // namespace qgpu
