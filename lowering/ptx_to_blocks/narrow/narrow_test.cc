#include "lowering/ptx_to_blocks/narrow/narrow.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/simplify/strength.h"
#include "lowering/ptx_to_blocks/test_kernel.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Buffers at 4, 104 and 204; n = 10, m = -1.
struct Narrowed {
  absl::Status status;
  IrFunction function;
  LaunchFacts facts;
  std::string text;
};

Narrowed NarrowBody(const std::string& body, int64_t budget = 20000) {
  Narrowed out;
  const ptx::Module module = ModuleOf(body);
  absl::StatusOr<Translation> translation = Translate(module, module.functions.at(0), {2, 1, 1}, {8, 1, 1});
  EXPECT_TRUE(translation.ok()) << translation.status();
  if (!translation.ok()) return out;
  out.function = std::move(translation->function);
  out.facts.grid = {2, 1, 1};
  out.facts.block = {8, 1, 1};
  out.facts.token_budget = budget;
  constexpr uint64_t values[] = {4, 104, 204, 10, 0xffffffff};
  for (const ParameterWord& word : translation->words) {
    out.facts.words.push_back(values[word.parameter]);
    out.facts.alignment.push_back(word.parameter < 3 ? 4 : 0);
  }
  Simplify(out.function);
  FoldAlignment(out.function, out.facts);
  Simplify(out.function);
  out.status = Narrow(out.function, out.facts, &translation->words);
  if (out.status.ok()) Simplify(out.function);
  out.text = ToText(out.function);
  return out;
}

TEST(Narrow, IndexOfTheThreadIsProven) {
  const Narrowed out = NarrowBody(
      "  mov.u32 %r2, %tid.x;\n  mov.u32 %r3, %ctaid.x;\n  mad.lo.s32 %r2, %r3, 8, %r2;\n"
      "  mul.wide.s32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd1, %rd3;\n  ld.global.u32 %r4, [%rd4];\n"
      "  st.global.u32 [%rd0], %r4;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, Not(HasSubstr("min")));
  EXPECT_THAT(out.text, Not(HasSubstr("sext")));
  EXPECT_THAT(out.text, HasSubstr("shl"));
}

TEST(Narrow, SignedIndexFromMemoryIsClampedOnBothSides) {
  const Narrowed out = NarrowBody(
      "  ld.global.u32 %r2, [%rd1];\n  mul.wide.s32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd2, %rd3;\n"
      "  ld.global.u32 %r4, [%rd4+8];\n  st.global.u32 [%rd0], %r4;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("mins"));
  EXPECT_THAT(out.text, HasSubstr("67108864"));
  EXPECT_THAT(out.text, HasSubstr("maxs"));
  EXPECT_THAT(out.text, HasSubstr("-67108864"));
}

TEST(Narrow, UnsignedIndexFromMemoryIsClampedAbove) {
  const Narrowed out = NarrowBody(
      "  ld.global.u32 %r2, [%rd1];\n  mul.wide.u32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd2, %rd3;\n"
      "  ld.global.u32 %r4, [%rd4];\n  st.global.u32 [%rd0], %r4;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("minu"));
  EXPECT_THAT(out.text, Not(HasSubstr("max")));
}

TEST(Narrow, IndexThatAJoinChoosesIsClampedWhereItComesFrom) {
  const Narrowed out = NarrowBody(
      "  ld.global.u32 %r2, [%rd1];\n  mov.u64 %rd3, 0;\n  setp.eq.s32 %p1, %r2, 7;\n  @%p1 bra L;\n"
      "  cvt.s64.s32 %rd3, %r2;\nL:\n  shl.b64 %rd4, %rd3, 2;\n  add.s64 %rd4, %rd0, %rd4;\n"
      "  st.global.u32 [%rd4], 5;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("67108864"));
  EXPECT_THAT(out.text, HasSubstr("phi"));
}

constexpr const char* kWalk =
    "  mov.u64 %rd3, %rd1;\n  mov.u32 %r2, 0;\nL:\n  ld.global.u32 %r3, [%rd3];\n  add.s32 %r2, %r2, %r3;\n"
    "  add.s64 %rd3, %rd3, 4;\n  setp.ne.s32 %p1, %r3, 0;\n  @%p1 bra L;\n  st.global.u32 [%rd0], %r2;\n  ret;";

TEST(Narrow, WalkingPointerIsProvenByTheTokenBudget) {
  EXPECT_TRUE(NarrowBody(kWalk).status.ok());
  const Narrowed endless = NarrowBody(kWalk, int64_t{1} << 40);
  ASSERT_TRUE(endless.status.ok()) << endless.status;
  EXPECT_THAT(endless.text, HasSubstr(", 268435456\n"));  // where the upper half is not 0
}

// p += m
TEST(Narrow, PointerThatWalksByANumberOfTheLaunch) {
  const std::string walk =
      "  mov.u64 %rd3, %rd1;\n  mov.u32 %r2, 0;\nL:\n  ld.global.u32 %r3, [%rd3];\n  st.global.u32 [%rd0], %r3;\n"
      "  add.s64 %rd3, %rd3, %rd4;\n  add.s32 %r2, %r2, 1;\n  setp.lt.s32 %p1, %r2, %r0;\n  @%p1 bra L;\n  ret;";
  const Narrowed argument = NarrowBody("  mul.wide.s32 %rd4, %r1, 4;\n" + walk);
  ASSERT_TRUE(argument.status.ok()) << argument.status;
  EXPECT_THAT(argument.text, Not(HasSubstr("cmp.lt.u")));
  EXPECT_THAT(argument.text, Not(HasSubstr("268435456")));
  const Narrowed loaded = NarrowBody("  ld.global.u32 %r4, [%rd2];\n  mul.wide.s32 %rd4, %r4, 4;\n" + walk);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  EXPECT_THAT(loaded.text, HasSubstr("cmp.lt.u"));       // the carry into the upper half,
  EXPECT_THAT(loaded.text, HasSubstr(", 268435456\n"));  // which has to be 0
}

TEST(Narrow, AddressThatIsNeverValidStaysSo) {
  const Narrowed out = NarrowBody(
      "  add.s64 %rd3, %rd0, -7470035684;\n  st.global.u32 [%rd3], 1;\n"
      "  add.s64 %rd4, %rd0, 4294967296;\n  st.global.u32 [%rd4+4], 2;\n  ret;");  // 4 GiB above a valid address
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_EQ(out.text, "block 0:\n  store 268435456, 1\n  store 268435456, 2\n  exit\n");
}

TEST(Narrow, UpperHalfOfTwoUnknownTermsIsLookedAt) {
  const Narrowed out = NarrowBody(
      "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd1+4];\n  mul.wide.s32 %rd3, %r2, 4;\n"
      "  mul.wide.s32 %rd4, %r3, 4;\n  add.s64 %rd3, %rd3, %rd4;\n  add.s64 %rd4, %rd2, %rd3;\n"
      "  ld.global.u32 %r4, [%rd4];\n  st.global.u32 [%rd0], %r4;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("sar"));
  EXPECT_THAT(out.text, HasSubstr("cmp.lt.u"));  // the carry
  EXPECT_THAT(out.text, HasSubstr(", 268435456\n"));
}

TEST(Narrow, ComparisonOfWideValuesIsShortWhereTheyAreProvenSmall) {
  const char* proven =
      "  mov.u32 %r2, %tid.x;\n  cvt.u64.u32 %rd3, %r2;\n  cvt.u64.u32 %rd4, %r0;\n  setp.lt.u64 %p1, %rd3, %rd4;\n"
      "  selp.u32 %r3, 1, 0, %p1;\n  st.global.u32 [%rd0], %r3;\n  ret;";
  const Narrowed out = NarrowBody(proven);
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("cmp.lt.u $29, $6"));
  const Narrowed wide = NarrowBody(
      "  ld.global.u32 %r2, [%rd1];\n  mul.wide.s32 %rd3, %r2, %r2;\n  setp.gt.s64 %p1, %rd3, 5;\n"
      "  selp.u32 %r3, 1, 0, %p1;\n  st.global.u32 [%rd0], %r3;\n  ret;");
  ASSERT_TRUE(wide.status.ok()) << wide.status;
  EXPECT_THAT(wide.text, HasSubstr("cmp.gt.s"));  // of the upper halves
  EXPECT_THAT(wide.text, HasSubstr("cmp.gt.u"));  // of the lower ones
  EXPECT_THAT(wide.text, HasSubstr("por"));
}

TEST(Narrow, ComparisonWithAConstantThatIsNew) {
  for (int more = 0; more < 40; ++more) {  // the list of instructions grows at some of these
    std::string body = "  ld.global.u32 %r2, [%rd1];\n";
    for (int i = 0; i < more; ++i) body += fmt::format("  xor.b32 %r2, %r2, {};\n  add.s32 %r2, %r2, 1;\n", 1000 + i);
    const Narrowed out =
        NarrowBody(body +
                   "  cvt.u64.u32 %rd3, %r2;\n  shr.u64 %rd3, %rd3, 31;\n  setp.ne.s64 %p1, %rd3, 50;\n"
                   "  selp.u32 %r3, 3, 4, %p1;\n  st.global.u32 [%rd0], %r3;\n  ret;");
    ASSERT_TRUE(out.status.ok()) << out.status;
    EXPECT_THAT(out.text, Not(HasSubstr("zext"))) << more;
  }
}

TEST(Narrow, ByteOfAnAlignedWordNeedsNoAddressArithmetic) {
  const Narrowed out = NarrowBody("  ld.global.u8 %r2, [%rd1+6];\n  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_THAT(out.text, HasSubstr("load $4 offset 4"));
  EXPECT_THAT(out.text, HasSubstr(", 16\n"));
  EXPECT_THAT(out.text, HasSubstr(", 255\n"));
}

TEST(Strength, PointersThatWalkTogetherShareAnIndexAndTheCounterGoes) {
  Narrowed out = NarrowBody(
      "  mov.u64 %rd3, %rd1;\n  mov.u64 %rd4, %rd2;\n  mov.u32 %r2, 0;\nL:\n"
      "  ld.global.u32 %r3, [%rd3];\n  ld.global.u32 %r4, [%rd4];\n  mad.lo.s32 %r2, %r3, %r4, %r2;\n"
      "  add.s32 %r0, %r0, -1;\n  add.s64 %rd3, %rd3, 4;\n  add.s64 %rd4, %rd4, 4;\n"
      "  setp.ne.s32 %p1, %r0, 0;\n  @%p1 bra L;\n  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  const auto phis = [&] {
    Simplify(out.function);
    const std::string text = ToText(out.function);
    int count = 0;
    for (size_t at = text.find("phi"); at != std::string::npos; at = text.find("phi", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(phis(), 4);
  EXPECT_TRUE(ShareByteIndices(out.function));
  EXPECT_EQ(phis(), 3);
  EXPECT_TRUE(ReplaceCounters(out.function, out.facts));
  EXPECT_EQ(phis(), 2);
  EXPECT_TRUE(RebaseIndices(out.function));
  Simplify(out.function);
  EXPECT_THAT(ToText(out.function), HasSubstr(", 0\n  if"));  // the end is zero now
  EXPECT_FALSE(RebaseIndices(out.function));
}

TEST(Strength, CounterStaysWhereItsScaledEndCouldWrap) {
  Narrowed out = NarrowBody(
      "  mov.u64 %rd3, %rd1;\n  ld.global.u32 %r5, [%rd2];\n  mov.u32 %r2, 0;\nL:\n"
      "  ld.global.u32 %r3, [%rd3];\n  add.s32 %r2, %r3, %r2;\n  add.s32 %r5, %r5, -1;\n"
      "  add.s64 %rd3, %rd3, 4;\n  setp.ne.s32 %p1, %r5, 0;\n  @%p1 bra L;\n"
      "  st.global.u32 [%rd0], %r2;\n  ret;");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_TRUE(ShareByteIndices(out.function));
  Simplify(out.function);
  EXPECT_FALSE(ReplaceCounters(out.function, out.facts));
}

}  // namespace
}  // namespace qgpu::lower
