#include "lowering/ptx_to_blocks/expand/expand_division.h"

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/expand/divide_by_constant.h"
#include "lowering/ptx_to_blocks/narrow/narrow.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/test_kernel.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Expanded {
  absl::Status status;
  IrFunction function;
  std::string text;
  int loops = 0;
  int longest = 0;  // instructions of a loop without its variables
};

// n = 10, m = -1.
Expanded Expand(const std::string& body) {
  Expanded out;
  const ptx::Module module = ModuleOf(body);
  absl::StatusOr<Translation> translation = Translate(module, module.functions.at(0), {2, 1, 1}, {8, 1, 1});
  EXPECT_TRUE(translation.ok()) << translation.status();
  if (!translation.ok()) return out;
  out.function = std::move(translation->function);
  LaunchFacts facts;
  facts.grid = {2, 1, 1};
  facts.block = {8, 1, 1};
  facts.token_budget = 20000;
  constexpr uint64_t values[] = {4, 104, 204, 10, 0xffffffff};
  for (const ParameterWord& word : translation->words) {
    facts.words.push_back(values[word.parameter]);
    facts.alignment.push_back(word.parameter < 3 ? 4 : 0);
  }
  Simplify(out.function);
  out.status = ExpandWideDivisions(out.function, facts);
  if (out.status.ok()) out.status = Narrow(out.function, facts, &translation->words);
  if (out.status.ok()) Simplify(out.function);
  if (out.status.ok()) out.status = ExpandDivisions(out.function, facts);
  if (!out.status.ok()) return out;
  Simplify(out.function);
  out.text = ToText(out.function);
  for (size_t block = 0; block < out.function.blocks.size(); ++block) {
    const IrBlock& candidate = out.function.blocks[block];
    if (candidate.end.kind != TerminatorKind::kBranch || candidate.end.target != static_cast<int>(block)) continue;
    ++out.loops;
    const auto ordinary = std::count_if(candidate.instructions.begin(), candidate.instructions.end(),
                                        [&](int value) { return out.function.at(value).op != IrOp::kPhi; });
    out.longest = std::max(out.longest, static_cast<int>(ordinary));
  }
  return out;
}

constexpr const char* kLoads = "  ld.global.u32 %r2, [%rd1];\n  ld.global.u32 %r3, [%rd2];\n";

Expanded ExpandOfLoaded(const std::string& body) {
  return Expand(kLoads + body + "  st.global.u32 [%rd0], %r4;\n  st.global.u32 [%rd0+4], %r5;\n  ret;");
}

TEST(ExpandDivision, QuotientAndRemainderShareALoop) {
  for (const char* body :
       {"  div.u32 %r4, %r2, %r3;\n  rem.u32 %r5, %r2, %r3;\n", "  rem.s32 %r5, %r2, %r3;\n  div.s32 %r4, %r2, %r3;\n",
        "  div.u32 %r4, %r2, %r3;\n  mul.lo.u32 %r5, %r4, %r3;\n  sub.u32 %r5, %r2, %r5;\n"}) {
    const Expanded out = ExpandOfLoaded(body);
    ASSERT_TRUE(out.status.ok()) << out.status;
    EXPECT_EQ(out.loops, 1) << out.text;
    EXPECT_EQ(out.longest, 7) << out.text;
    EXPECT_THAT(out.text, Not(HasSubstr("mul")));
  }
  EXPECT_EQ(ExpandOfLoaded("  div.u32 %r4, %r2, %r3;\n  rem.s32 %r5, %r2, %r3;\n").loops, 2);
  EXPECT_EQ(ExpandOfLoaded("  div.u32 %r4, %r2, %r3;\n  div.u32 %r5, %r3, %r2;\n").loops, 2);
}

TEST(ExpandDivision, RemainderAloneFitsIntoOnePass) {
  const Expanded out = ExpandOfLoaded("  rem.u32 %r4, %r2, %r3;\n  mov.u32 %r5, 0;\n");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_EQ(out.loops, 1);
  EXPECT_EQ(out.longest, 4) << out.text;
}

TEST(ExpandDivision, SignsAndZeroAreLookedAtOnlyWhereTheyCanBe) {
  // A thread number divided by n = 10.
  const Expanded out = ExpandOfLoaded("  mov.u32 %r2, %tid.x;\n  div.s32 %r4, %r2, %r0;\n  mov.u32 %r5, 0;\n");
  ASSERT_TRUE(out.status.ok()) << out.status;
  EXPECT_EQ(out.loops, 1);
  EXPECT_THAT(out.text, Not(HasSubstr("cmp.eq")));
  EXPECT_THAT(out.text, Not(HasSubstr("lt.s")));
  const Expanded any = ExpandOfLoaded("  div.s32 %r4, %r2, %r3;\n  mov.u32 %r5, 0;\n");
  EXPECT_THAT(any.text, HasSubstr("cmp.eq"));
  EXPECT_THAT(any.text, HasSubstr("lt.s"));
}

TEST(ExpandDivision, ConstantsAndSmallWideValues) {
  const Expanded constant = ExpandOfLoaded("  div.s32 %r4, %r2, 10;\n  rem.u32 %r5, %r3, 7;\n");
  ASSERT_TRUE(constant.status.ok()) << constant.status;
  EXPECT_EQ(constant.loops, 0) << constant.text;
  const Expanded narrow = ExpandOfLoaded(
      "  cvt.u64.u32 %rd3, %r2;\n  cvt.u64.u32 %rd4, %r3;\n  rem.u64 %rd5, %rd3, %rd4;\n"
      "  cvt.u32.u64 %r4, %rd5;\n  mov.u32 %r5, 0;\n");
  EXPECT_EQ(narrow.longest, 4) << narrow.text;
  const Expanded wide = ExpandOfLoaded(
      "  mov.b64 %rd3, {%r2, %r3};\n  mov.b64 %rd4, {%r3, %r2};\n  rem.u64 %rd5, %rd3, %rd4;\n"
      "  mov.b64 {%r4, %r5}, %rd5;\n");
  ASSERT_TRUE(wide.status.ok()) << wide.status;
  EXPECT_EQ(wide.loops, 1);
  EXPECT_LE(wide.longest, 16) << wide.text;
}

TEST(ExpandDivision, MoreThanTheRomHoldsIsRefused) {
  std::string body;
  for (int i = 0; i < 40; ++i) body += fmt::format("  add.u32 %r3, %r3, {};\n  div.u32 %r2, %r2, %r3;\n", i + 1);
  const Expanded out = ExpandOfLoaded(body + "  mov.u32 %r4, %r2;\n  mov.u32 %r5, 0;\n");
  EXPECT_EQ(out.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(out.status.message()), HasSubstr("the ROM holds 32"));
}

// The quotient that folding finds for a constant dividend.
uint32_t FoldedQuotient(uint32_t value, const Range& range, uint32_t divisor, bool is_signed) {
  IrFunction function;
  function.blocks.emplace_back();
  PairMath math(function, [&](IrInstruction in) { return function.Add(0, std::move(in)); });
  const int dividend = function.Constant(Type::kI32, value);
  IrInstruction store;
  store.op = IrOp::kStore;
  store.args = {function.Constant(Type::kI32, 4),
                QuotientByConstant(function, math, dividend, range, divisor, is_signed)};
  const int at = function.Add(0, store);
  Simplify(function);
  const int stored = function.at(at).args[1];
  EXPECT_TRUE(function.IsConstant(stored)) << ToText(function);
  return static_cast<uint32_t>(function.at(stored).immediate);
}

TEST(DivideByConstant, IsExact) {
  constexpr uint32_t edges[] = {1,     2,     3,          5,          6,          7,          9,          10,
                                11,    12,    25,         125,        625,        641,        1000,       65535,
                                65536, 65537, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  constexpr Range kAny = {INT32_MIN, INT32_MAX};
  SplitMix64 random(1);
  for (int i = 0; i < 4000; ++i) {
    const uint32_t divisor =
        i % 2 == 0 ? edges[random.Below(std::size(edges))] : (random.Next32() >> random.Below(32)) | 1;
    uint32_t value = i % 3 == 0 ? edges[random.Below(std::size(edges))] : random.Next32() >> random.Below(32);
    if (i % 5 == 0) value = value / divisor * divisor - (i % 2);  // around multiples
    EXPECT_EQ(FoldedQuotient(value, kAny, divisor, false), value / divisor) << value << " / " << divisor;
    const auto a = static_cast<int32_t>(value), b = static_cast<int32_t>(divisor);
    if (a != INT32_MIN || b != -1) {
      EXPECT_EQ(static_cast<int32_t>(FoldedQuotient(value, kAny, divisor, true)), a / b) << a << " / " << b;
    }
    const uint32_t small = value >> (1 + i % 24);
    const Range range = {0, small | random.Below(100)};
    EXPECT_EQ(FoldedQuotient(small, {0, std::max<int64_t>(small, range.high)}, divisor, false), small / divisor)
        << small << " / " << divisor;
  }
}

}  // namespace
}  // namespace qgpu::lower
