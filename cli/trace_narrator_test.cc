#include "cli/trace_narrator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

// Block 0: slot 0 r3 = r1 + 5 (CUDA line 7), slot 1 stores r3, slot 2 p2 = r1 == 0; exits.
MachineLaunch MakeLaunch() {
  MachineLaunch launch;
  MachineBlock block;
  block.slots[0] = {.op = Op::kAdd, .dst = 3, .a = 1, .immediate = 5};
  block.slots[1] = {.op = Op::kSt, .a = 2, .c = 3};
  block.slots[2] = {.op = Op::kSetEq, .dst = 2, .a = 1};
  block.control = {.kind = ControlKind::kExit};
  launch.program.blocks = {block};
  launch.program.origins.resize(1);
  launch.program.origins[0][0] = {12, 7, "add.s32 %r3, %r1, 5"};
  launch.program.origins[0][1] = {13, 8, "st.global.u32 [%rd1], %r3"};
  return launch;
}

TEST(TraceNarrator, FollowsALaunch) {
  const MachineLaunch launch = MakeLaunch();
  TraceNarrator narrator(launch);
  const auto exec = narrator.Narrate(Token::Exec(0, 0b0111));
  EXPECT_THAT(exec.what, HasSubstr("threads 0 to 2: add r3, r1, 5; st [r2 + 0], r3; "));
  EXPECT_THAT(exec.what, HasSubstr("exit"));
  EXPECT_EQ(exec.origin.cuda_line, 7);
  EXPECT_EQ(exec.origin.ptx_line, 12);
  EXPECT_EQ(narrator.Narrate(Token::Val0(0, 1, 0xfb)).what, "thread 1: r3 = -5");
  EXPECT_EQ(narrator.Narrate(Token::Val0U(0, 0x10)).what, "threads 0 to 2: r3 = 16");
  EXPECT_EQ(narrator.Narrate(Token::Val1(0x7ff)).what, "threads 0 to 2: r3 = 524048");
  EXPECT_EQ(narrator.Narrate(Token::Val2(0xfff)).what, "threads 0 to 2: r3 = -524528");
  EXPECT_EQ(narrator.Narrate(Token::Mem(20)).what, "stores that follow go to word 20 + lane");
  const auto store = narrator.Narrate(Token::Val0(1, 2, 9));
  EXPECT_EQ(store.what, "thread 2: word 22 = 9");
  EXPECT_EQ(store.origin.cuda_line, 8);
  EXPECT_EQ(narrator.Narrate(Token::Pred(2, 0b0101)).what, "p2 is true for threads 0, 2, false for thread 1");
  EXPECT_EQ(narrator.Narrate(Token::SwitchWarp(2)).what, "threads 8 to 11 are next");
  EXPECT_EQ(narrator.Narrate(Token::Cta(1, 3)).what, "next thread block: blockIdx.y = 3");
  EXPECT_EQ(narrator.Narrate(Token::Done()).what, "the launch is done");
}

TEST(TraceNarrator, ABrokenModelsTokensAreNarratedToo) {
  const MachineLaunch launch = MakeLaunch();
  TraceNarrator narrator(launch);
  EXPECT_EQ(narrator.Narrate(Token::Val1(1)).what, "a value of no block");
  EXPECT_EQ(narrator.Narrate(Token::Pred(1, 1)).what, "predicates of no block");
  EXPECT_THAT(narrator.Narrate(Token::Exec(31, 15)).what, HasSubstr("block 31, which the program does not have"));
  EXPECT_EQ(narrator.Narrate(Token::Val0(3, 0, 1)).what, "a value of no block");
  EXPECT_EQ(narrator.Narrate(Token::Grid()).what, "a token that only the host feeds");
  for (int id = 0; id < MachineVocabularySize(); ++id) {
    EXPECT_FALSE(narrator.Narrate(TokenFromId(id).value()).what.empty());
  }
}

}  // namespace
}  // namespace qgpu
