#include "lowering/ptx_to_blocks/lower.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/test_kernel.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu::lower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kOut = 4, kA = 44, kB = 84;  // ten words each

struct Lowered {
  absl::Status status;
  MachineLaunch launch;

  // Words of `out` after a run on a = 1, 2, 3, ... and b = 10, 20, ...
  std::vector<int32_t> Run(size_t count, int64_t budget = 20000, LaunchEnd expected = LaunchEnd::kDone) {
    launch.memory.assign(31, 0);
    for (uint32_t i = 0; i < 10; ++i) {
      launch.memory[kA / 4 + i] = i + 1;
      launch.memory[kB / 4 + i] = 10 * (i + 1);
    }
    const MachineRun run = Interpret(launch, budget);
    EXPECT_EQ(run.end, expected);
    tokens = static_cast<int>(run.tokens.size());
    std::vector<int32_t> out;
    for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(run.state.memory[kOut / 4 + i]));
    return out;
  }
  int tokens = 0;
};

Lowered LowerBody(const std::string& body, Dim3 block = {1, 1, 1}, uint32_t n = 3, uint32_t m = 5) {
  Lowered out;
  const ptx::Module module = ModuleOf(body);
  std::vector<Bytes> parameters;
  for (const uint32_t address : {kOut, kA, kB}) parameters.push_back(FromWords({address, 0}, 8));
  for (const uint32_t number : {n, m}) parameters.push_back(FromWords({number}, 4));
  LoweredTestKernel lowered = LowerTestKernel(module, block, std::move(parameters));
  out.status = lowered.status;
  if (!out.status.ok()) return out;
  out.launch = std::move(lowered.launch);
  EXPECT_TRUE(ValidateLaunch(out.launch, MachineGeometry{}).ok()) << ValidateLaunch(out.launch, MachineGeometry{});
  return out;
}

TEST(Lower, EmptyKernelIsOneBlockThatExits) {
  Lowered out = LowerBody("  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  ASSERT_EQ(out.launch.program.blocks.size(), 1u);
  EXPECT_EQ(out.launch.program.blocks[0].control.kind, ControlKind::kExit);
}

TEST(Lower, LoadLoadAddStoreIsOneBlock) {
  Lowered out = LowerBody(
      "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd2];\n  add.s32 %r2, %r2, %r3;\n"
      "  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_EQ(out.launch.program.blocks.size(), 1u);
  EXPECT_THAT(out.Run(1), ElementsAre(11));
  EXPECT_EQ(out.tokens, 4);  // EXEC, MEM, VAL0, DONE
}

TEST(Lower, SlotsKeepTheirOrigins) {
  Lowered out = LowerBody("  .loc 1 42 7\n  ld.global.u32 %r2, [%rd1];\n  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  const Program& program = out.launch.program;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (program.blocks[0].slots[slot].op != Op::kLd) continue;
    EXPECT_EQ(program.origins[0][slot].ptx_line, kFirstBodyLine + 1);
    EXPECT_EQ(program.origins[0][slot].text, "ld.global.u32 %r2, [%rd1];");
  }
  EXPECT_EQ(program.origins[0][kSlots].text, "ret;");
}

TEST(Lower, LoadAfterAStoreThatMayAliasSeesIt) {
  Lowered out = LowerBody(
      "  st.global.u32 [%rd0], 7;\n  ld.global.u32 %r2, [%rd0];\n  add.s32 %r2, %r2, 1;\n"
      "  st.global.u32 [%rd0+4], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(2), ElementsAre(7, 8));
}

TEST(Lower, StoresToTheSameWordKeepTheirOrder) {
  Lowered out =
      LowerBody("  st.global.u32 [%rd0], %r0;\n  st.global.u32 [%rd0], %r1;\n  st.global.u32 [%rd0], 9;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(1), ElementsAre(9));
}

TEST(Lower, LoopsThatExchangeAndRotateTheirVariables) {
  Lowered out = LowerBody(
      "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd1+4];\n  ld.global.u32 %r4, [%rd1+8];\n"
      "  ld.global.u32 %r5, [%rd2];\n  ld.global.u32 %r6, [%rd2+4];\nL:\n"
      "  mov.u32 %r7, %r2;\n  mov.u32 %r2, %r3;\n  mov.u32 %r3, %r4;\n  mov.u32 %r4, %r7;\n"  // rotate three
      "  mov.u32 %r8, %r5;\n  mov.u32 %r5, %r6;\n  mov.u32 %r6, %r8;\n"                       // exchange two
      "  add.s32 %r1, %r1, -1;\n  setp.gt.s32 %p1, %r1, 0;\n  @%p1 bra L;\n"
      "  st.global.u32 [%rd0], %r2;\n  st.global.u32 [%rd0+4], %r3;\n  st.global.u32 [%rd0+8], %r4;\n"
      "  st.global.u32 [%rd0+12], %r5;\n  st.global.u32 [%rd0+16], %r6;\n  ret;");
  if (out.status.ok()) {
    EXPECT_THAT(out.Run(5), ElementsAre(3, 1, 2, 20, 10));  // five turns
  } else {
    EXPECT_EQ(out.status.code(), absl::StatusCode::kUnimplemented);  // five moves at once
  }
}

TEST(Lower, ABranchWhoseBothWaysLeadBackToIt) {
  Lowered out = LowerBody(
      "L:\n  add.s32 %r2, %r2, 1;\n  st.global.u32 [%rd0], %r2;\n  setp.gt.s32 %p1, %r2, %r1;\n  @%p1 bra L;\n"
      "  add.s32 %r3, %r3, %r2;\n  st.global.u32 [%rd0+4], %r3;\n  bra L;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_EQ(Interpret(out.launch, 200).end, LaunchEnd::kBudget);
}

TEST(Lower, ExchangeInALoop) {
  Lowered out = LowerBody(
      "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd2];\nL:\n  mov.u32 %r7, %r2;\n  mov.u32 %r2, %r3;\n"
      "  mov.u32 %r3, %r7;\n  add.s32 %r1, %r1, -1;\n  setp.gt.s32 %p1, %r1, 0;\n  @%p1 bra L;\n"
      "  st.global.u32 [%rd0], %r2;\n  st.global.u32 [%rd0+4], %r3;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(2), ElementsAre(10, 1));
}

TEST(Lower, LoopVariableThatIsReadAfterTheLoopAsItWasBeforeItsStep) {
  Lowered out = LowerBody(
      "  mov.u32 %r2, 1;\nL:\n  mov.u32 %r3, %r2;\n  shl.b32 %r2, %r2, 1;\n  setp.lt.s32 %p1, %r2, 100;\n"
      "  @%p1 bra L;\n  st.global.u32 [%rd0], %r2;\n  st.global.u32 [%rd0+4], %r3;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(2), ElementsAre(128, 64));
}

TEST(Lower, DivergentBranchesJoinAtAHigherBlock) {
  Lowered out = LowerBody(
      "  mov.u32 %r2, %tid.x;\n  mul.wide.u32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd0, %rd3;\n"
      "  and.b32 %r3, %r2, 1;\n  setp.eq.s32 %p1, %r3, 0;\n  @%p1 bra EVEN;\n"
      "  st.global.u32 [%rd4], 5;\n  ld.global.u32 %r5, [%rd4];\n  mul.lo.s32 %r4, %r2, %r5;\n  bra JOIN;\n"
      "EVEN:\n  st.global.u32 [%rd4], 7;\n  ld.global.u32 %r5, [%rd4];\n  add.s32 %r4, %r2, %r5;\n"
      "JOIN:\n  xor.b32 %r4, %r4, 64;\n  st.global.u32 [%rd4], %r4;\n  ret;",
      {4, 1, 1});
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(4), ElementsAre(7 ^ 64, 5 ^ 64, 9 ^ 64, 15 ^ 64));
  const MachineRun run = Interpret(out.launch, 1000);
  Token last_exec;
  for (const Token& token : run.tokens) {
    if (token.kind == TokenKind::kExec) last_exec = token;
  }
  EXPECT_EQ(last_exec.mask(), 15);  // all lanes together again
}

TEST(Lower, ShortBranchesBecomePredication) {
  const char* body =
      "  mov.u32 %r2, %tid.x;\n  mul.wide.u32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd0, %rd3;\n"
      "  add.s64 %rd5, %rd1, %rd3;\n  ld.global.u32 %r3, [%rd5];\n  mov.u32 %r4, 50;\n"
      "  setp.gt.s32 %p1, %r3, 2;\n  @!%p1 bra SKIP;\n  ld.global.u32 %r4, [%rd2];\n"
      "  st.global.u32 [%rd4+16], 9;\nSKIP:\n  add.s32 %r4, %r4, %r3;\n  st.global.u32 [%rd4], %r4;\n  ret;";
  Lowered out = LowerBody(body, {4, 1, 1});
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(8), ElementsAre(51, 52, 13, 14, 0, 0, 9, 9));
  for (const MachineBlock& block : out.launch.program.blocks) EXPECT_EQ(block.control.condition, kGuardAlways);
}

TEST(Lower, ValueWrittenEarlyForAJoinSurvivesTheOtherSide) {
  // %r5 at the join is %r2 from far above or a product; the product's slot must not destroy what the other way carries.
  const char* body =
      "  ld.global.u32 %r2, [%rd1+8];\n  ld.global.u32 %r3, [%rd2];\n  bar.sync 0;\n"
      "  setp.lt.s32 %p1, %r3, %r0;\n  @%p1 bra ELSE;\n"
      "  mov.u32 %r5, %r2;\n  mov.u32 %r6, 77;\n  setp.gt.s32 %p2, %r0, 1000;\n  @%p2 bra JOIN;\n"
      "  ld.global.u32 %r6, [%rd2+4];\n  add.s32 %r6, %r6, %r2;\n  st.global.u32 [%rd0+8], %r6;\n"
      "  xor.b32 %r6, %r6, %r3;\n  st.global.u32 [%rd0+12], %r6;\n  mul.lo.s32 %r6, %r6, %r2;\n  bra JOIN;\n"
      "ELSE:\n  or.b32 %r5, %r3, %r0;\n  mul.lo.s32 %r5, %r5, 12345;\n  mov.u32 %r6, 78;\n"
      "JOIN:\n  add.s32 %r7, %r5, %r6;\n  st.global.u32 [%rd0], %r7;\n  st.global.u32 [%rd0+4], %r2;\n  ret;";
  Lowered out = LowerBody(body);
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(4), ElementsAre(3 + (23 ^ 10) * 3, 3, 23, 23 ^ 10));
  Lowered other = LowerBody(body, {1, 1, 1}, 11);
  ASSERT_TRUE(other.status.ok()) << other.status;
  EXPECT_THAT(other.Run(4), ElementsAre((10 | 11) * 12345 + 78, 3, 0, 0));
}

TEST(Lower, BothSidesOfABranchDoNotWriteTheJoinsVariableAboveIt) {
  // Each side is one short computation that fits the free slots above the branch, and too long to be predicated.
  std::string sides[2];
  for (int side = 0; side < 2; ++side) {
    sides[side] = fmt::format("  add.s32 %r5, %r2, {};\n", 100 + side);
    for (int i = 0; i < 4; ++i) sides[side] += fmt::format("  st.global.u32 [%rd0+{}], {};\n", 4 + 4 * i, side + i);
  }
  for (uint32_t n : {3u, 0u}) {
    Lowered out =
        LowerBody("  ld.global.u32 %r2, [%rd1];\n  bar.sync 0;\n  setp.lt.s32 %p1, %r2, %r0;\n  @%p1 bra ELSE;\n" +
                      sides[0] + "  bra JOIN;\nELSE:\n" + sides[1] + "JOIN:\n  st.global.u32 [%rd0], %r5;\n  ret;",
                  {1, 1, 1}, n);
    ASSERT_TRUE(out.status.ok()) << out.status;
    EXPECT_THAT(out.Run(2), ElementsAre(n == 3 ? 102 : 101, n == 3 ? 1 : 0));
  }
}

TEST(Lower, PredicatePhis) {
  Lowered out = LowerBody(
      "  setp.lt.s32 %p1, %r0, %r1;\n  mov.u32 %r2, 0;\nL:\n  @!%p1 bra DONE;\n  add.s32 %r2, %r2, 1;\n"
      "  setp.lt.s32 %p1, %r2, 4;\n  bra L;\nDONE:\n  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(1), ElementsAre(4));
}

TEST(Lower, EndlessLoopSpendsItsBudget) {
  Lowered out = LowerBody("L:\n  bra L;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  out.Run(0, 50, LaunchEnd::kBudget);
}

TEST(Lower, ThreadsAtDifferentBarriersTrapWhereTheirWaysMeetAgain) {
  Lowered lowered = LowerBody(
      "  mov.u32 %r2, %tid.x;\n  setp.gt.u32 %p1, %r2, 2;\n  @%p1 bra ELSE;\n"
      "  st.global.u32 [%rd0], %r2;\n  bar.sync 0;\n  mov.u32 %r3, 2;\n  bra JOIN;\n"
      "ELSE:\n  bar.sync 0;\n  mov.u32 %r3, 4;\nJOIN:\n  st.global.u32 [%rd0+8], %r3;\n  ret;",
      {8, 1, 1});
  ASSERT_TRUE(lowered.status.ok()) << lowered.status;
  lowered.Run(1, 20000, LaunchEnd::kTrap);
}

TEST(Lower, AWayThatNoValueTakesPartsNoThreads) {
  // A switch over all values of two bits in a loop; clang ends the way that is left with an exit.
  const Lowered lowered = LowerBody(
      "  mov.u32 %r2, %tid.x;\n  mov.u32 %r5, 0;\nLOOP:\n  and.b32 %r3, %r2, 3;\n"
      "  setp.gt.s32 %p1, %r3, 1;\n  @%p1 bra HIGH;\n"
      "  setp.eq.s32 %p2, %r3, 0;\n  @%p2 bra JOIN;\n  setp.eq.s32 %p2, %r3, 1;\n  @%p2 bra ODD;\n  bra NEVER;\n"
      "HIGH:\n  setp.eq.s32 %p2, %r3, 2;\n  @%p2 bra JOIN;\n  setp.eq.s32 %p2, %r3, 3;\n  @%p2 bra ODD;\n"
      "NEVER:\n  exit;\nODD:\n  add.s32 %r2, %r2, -1;\n"
      "JOIN:\n  shfl.sync.down.b32 %r4, %r2, 2, 31, -1;\n  add.s32 %r2, %r4, %r2;\n  add.s32 %r5, %r5, 1;\n"
      "  setp.lt.s32 %p3, %r5, %r0;\n  @%p3 bra LOOP;\n  st.global.u32 [%rd0], %r2;\n  ret;",
      {16, 1, 1});
  EXPECT_TRUE(lowered.status.ok()) << lowered.status;
}

TEST(Lower, BarrierEndsItsBlock) {
  Lowered out = LowerBody(
      "  mov.u32 %r2, %tid.x;\n  mul.wide.u32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd0, %rd3;\n"
      "  st.global.u32 [%rd4], %r2;\n  bar.sync 0;\n  xor.b32 %r3, %r2, 7;\n  mul.wide.u32 %rd3, %r3, 4;\n"
      "  add.s64 %rd5, %rd0, %rd3;\n  ld.global.u32 %r5, [%rd5];\n  bar.sync 0;\n  st.global.u32 [%rd4], %r5;\n"
      "  bar.sync 0;\n  ret;",
      {8, 1, 1});
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(8), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(Lower, SaysHowManyBlocksAreMissing) {
  std::string body = "  ld.global.u32 %r2, [%rd1];\n";
  for (int i = 0; i < 70; ++i) body += fmt::format("  mul.lo.s32 %r2, %r2, %r2;\n  xor.b32 %r2, %r2, {};\n", i + 1);
  const Lowered out = LowerBody(body + "  st.global.u32 [%rd0], %r2;\n  ret;");
  EXPECT_EQ(out.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(out.status.message()), HasSubstr(" machine blocks, the ROM holds 32"));
}

TEST(Lower, RefusesHugeKernelsQuickly) {
  std::string body = "  ld.global.u32 %r2, [%rd1];\n";
  for (int i = 0; i < 300; ++i) {  // a loop nest that no order of blocks makes simple
    body += fmt::format("L{0}:\n  add.s32 %r{1}, %r{1}, %r2;\n  setp.lt.s32 %p1, %r{1}, {0};\n  @%p1 bra L{2};\n", i,
                        3 + i % 20, i / 2);
  }
  const Lowered out = LowerBody(body + "  st.global.u32 [%rd0], %r3;\n  ret;");
  EXPECT_THAT(std::string(out.status.message()), HasSubstr("needs at least"));
}

TEST(Lower, SpillsWhereRegistersAreMissing) {
  std::string body;
  for (int i = 0; i < 20; ++i) body += fmt::format("  ld.global.u32 %r{}, [%rd1+{}];\n", i + 10, 4 * (i % 10));
  for (int i = 0; i < 20; ++i) body += fmt::format("  st.global.u32 [%rd0+{}], %r{};\n", 4 * (i % 10), i + 10);
  Lowered out = LowerBody(body + "  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.Run(4), ElementsAre(1, 2, 3, 4));
}

TEST(Lower, TakesProgramOrderWhereRegistersAreShort) {
  // Twenty independent chains, each done before the next begins: all at once they would not fit.
  std::string body = "  mov.u32 %r49, 0;\n";
  for (int i = 0; i < 20; ++i) {
    body += fmt::format(
        "  ld.global.u32 %r2, [%rd1+{}];\n  mul.lo.s32 %r3, %r2, %r2;\n  xor.b32 %r3, %r3, {};\n"
        "  add.s32 %r49, %r49, %r3;\n",
        4 * (i % 10), i);
  }
  Lowered out = LowerBody(body + "  st.global.u32 [%rd0], %r49;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  int expected = 0;
  for (int i = 0; i < 20; ++i) expected += ((i % 10 + 1) * (i % 10 + 1)) ^ i;
  EXPECT_THAT(out.Run(1), ElementsAre(expected));
}

TEST(Lower, IsDeterministic) {
  const char* body =
      "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd2];\nL:\n  add.s32 %r2, %r2, %r3;\n"
      "  min.u32 %r3, %r3, %r2;\n  setp.lt.s32 %p1, %r2, 100;\n  @%p1 bra L;\n  st.global.u32 [%rd0], %r2;\n  ret;";
  const Lowered a = LowerBody(body), b = LowerBody(body);
  ASSERT_TRUE(a.status.ok()) << a.status;
  EXPECT_EQ(a.launch.program.blocks, b.launch.program.blocks);
}

}  // namespace
}  // namespace qgpu::lower
