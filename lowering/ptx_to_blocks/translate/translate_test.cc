#include "lowering/ptx_to_blocks/translate/translate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/test_kernel.h"

namespace qgpu::lower {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Translation> TranslateBody(const std::string& body, Dim3 grid = {2, 1, 1}, Dim3 block = {8, 1, 1}) {
  const ptx::Module module = ModuleOf(body);
  return Translate(module, module.functions.at(0), grid, block);
}

std::string SimplifiedText(const std::string& body, Dim3 grid = {2, 1, 1}, Dim3 block = {8, 1, 1}) {
  absl::StatusOr<Translation> translation = TranslateBody(body, grid, block);
  EXPECT_TRUE(translation.ok()) << translation.status();
  if (!translation.ok()) return "";
  Simplify(translation->function);
  return ToText(translation->function);
}

// The text with its values numbered in order of appearance.
std::string Renumbered(const std::string& text) {
  std::vector<std::string> names;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool starts = i == 0 || text[i - 1] == ' ' || text[i - 1] == '!';
    size_t end = i + 1;
    while (end < text.size() && isdigit(text[end])) ++end;
    if (starts && (text[i] == 'v' || text[i] == 'p' || text[i] == 'd') && end > i + 1) {
      const std::string name = text.substr(i, end - i);
      size_t index = std::find(names.begin(), names.end(), name) - names.begin();
      if (index == names.size()) names.push_back(name);
      out += fmt::format("{}{}", text[i], index);
      i = end;
    } else {
      out += text[i++];
    }
  }
  return out;
}

TEST(Translate, StraightLine) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.global.u32 %r2, [%rd1+4];\n"
                                      "  mad.lo.s32 %r3, %r2, %r0, 7;\n"
                                      "  st.global.u32 [%rd0], %r3;\n  ret;")),
            "block 0:\n"
            "  v0 = load $4 offset 4\n"
            "  v1 = mad v0, $6, 7\n"
            "  store $3, v1\n"
            "  exit\n");
}

TEST(Translate, PredicatedWriteKeepsTheOldValueWhereTheGuardIsFalse) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.global.u32 %r2, [%rd1];\n"
                                      "  setp.lt.s32 %p1, %r2, 5;\n"
                                      "  @!%p1 add.s32 %r2, %r2, 1;\n"
                                      "  st.global.u32 [%rd0], %r2;\n  ret;")),
            "block 0:\n"
            "  v0 = load $4\n"
            "  p1 = cmp.lt.s v0, 5\n"
            "  v2 = add v0, 1\n"
            "  v3 = select p1, v0, v2\n"
            "  store $3, v3\n"
            "  exit\n");
}

TEST(Translate, LoopsGetPhis) {
  const std::string text =
      Renumbered(SimplifiedText("  mov.u32 %r2, 0;\nL:\n  add.s32 %r2, %r2, %r0;\n  setp.lt.s32 %p1, %r2, 100;\n"
                                "  @%p1 bra L;\n  st.global.u32 [%rd0], %r2;\n  ret;"));
  EXPECT_THAT(text, HasSubstr("v0 = phi 0 from 0, v1 from 2\n  v1 = add v0, $6\n  p2 = cmp.lt.s v1, 100\n"));
}

TEST(Translate, LaunchShapeIsConstant) {
  EXPECT_EQ(SimplifiedText("  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %nctaid.x;\n  mov.u32 %r4, %tid.y;\n"
                           "  add.s32 %r2, %r2, %r3;\n  add.s32 %r2, %r2, %r4;\n"
                           "  st.global.u32 [%rd0], %r2;\n  ret;",
                           {3, 1, 1}, {8, 1, 1}),
            "block 0:\n  store $3, 11\n  exit\n");
}

TEST(Translate, SixteenBitValuesAreExtendedBeforeTheirHighBitsMatter) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.global.u32 %r2, [%rd1];\n  cvt.u16.u32 %rs1, %r2;\n"
                                      "  add.s16 %rs2, %rs1, 1;\n  cvt.s32.s16 %r3, %rs2;\n"
                                      "  st.global.u32 [%rd0], %r3;\n  ret;")),
            "block 0:\n"
            "  v0 = load $4\n"
            "  v1 = add v0, 1\n"
            "  v2 = shl v1, 16\n"
            "  v3 = sar v2, 16\n"
            "  store $3, v3\n"
            "  exit\n");
}

TEST(Translate, PiecesOfParameters) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.param.s8 %r2, [m+3];\n  st.global.u32 [%rd0], %r2;\n  ret;")),
            "block 0:\n  v0 = shr $7, 24\n  v1 = shl v0, 24\n  v2 = sar v1, 24\n  store $3, v2\n  exit\n");
}

TEST(Translate, LoadsAndStoresOfWiderRegisters) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.global.s32 %rd3, [%rd1];\n  st.global.u32 [%rd0], %rd3;\n  ret;")),
            "block 0:\n  v0 = load $4\n  store $3, v0\n  exit\n");
}

TEST(Translate, UnsupportedInstructionIsNamedWithItsLines) {
  const absl::StatusOr<Translation> translation = TranslateBody("  .loc 1 42 7\n  div.rn.f32 %r2, %r0, %r1;\n  ret;");
  EXPECT_EQ(translation.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(translation.status().message()), HasSubstr(fmt::format("t.ptx:{}", kFirstBodyLine + 1)));
  EXPECT_THAT(std::string(translation.status().message()), HasSubstr("div.rn.f32 %r2, %r0, %r1;"));
  EXPECT_THAT(std::string(translation.status().message()), HasSubstr("needs floating point"));
}

TEST(Translate, RefusalsSayWhatWouldBeNeeded) {
  for (const auto& [body, needs] : {std::pair{"ld.global.f32 %f1, [%rd1];", "needs floating point"},
                                    {"atom.global.add.f32 %f1, [%rd0], %f1;", "needs floating point"}}) {
    const absl::Status status = TranslateBody(fmt::format("  .reg .f32 %f<2>;\n  {}\n  ret;", body)).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(needs)) << body;
  }
}

TEST(Translate, ModifiersAndTypesThatAreNotTakenAreRefused) {
  for (const char* body :
       {"  add.sat.u32 %r2, %r0, %r1;", "  mul.wide.u64 %rd3, %rd1, %rd2;", "  min.relu.s32 %r2, %r0, %r1;",
        "  add.b32 %r2, %r0, %r1;", "  setp.lo.s32 %p1, %r0, %r1;", "  add.u16x2 %r2, %r0, %r1;",
        "  ld.global.b128 %rd3, [%rd1];", "  bar.sync 1;", "  mov.u32 %r2, %clock;",
        "  setp.lt.f32 %p1, 0f00000000, 0f00000000;", "  atom.global.add.b32 %r2, [%rd0], 1;", "  @%p1 bar.sync 0;",
        "  ld.global.v8.u32 %r2, [%rd1];", "  prmt.b32.f5e %r2, %r0, %r1, 2;", "  set.lt.f32.s32 %r2, %r0, %r1;"}) {
    EXPECT_EQ(TranslateBody(std::string(body) + "\n  ret;").status().code(), absl::StatusCode::kUnimplemented) << body;
  }
}

TEST(Translate, TooManyParameters) {
  std::string text = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out";
  std::string body = "  ld.param.u64 %rd0, [out];\n";
  for (int i = 0; i < 25; ++i) {
    text += fmt::format(", .param .u32 p{}", i);
    body += fmt::format("  ld.param.u32 %r0, [p{}];\n  st.global.u32 [%rd0], %r0;\n", i);
  }
  const auto module =
      ptx::ParsePtx("t.ptx", text + ")\n{\n  .reg .b32 %r<2>;\n  .reg .b64 %rd<2>;\n" + body + "  ret;\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  const auto translation = Translate(*module, module->functions.at(0), {}, {});
  EXPECT_EQ(translation.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(translation.status().message()), HasSubstr("needs more than 25 parameter words"));
}

TEST(Simplify, FoldsConstantsIdentitiesAndDeadBranches) {
  EXPECT_EQ(SimplifiedText("  mov.u32 %r2, 3;\n  setp.gt.s32 %p1, %r2, 5;\n  @%p1 bra L;\n"
                           "  shl.b32 %r2, %r2, 2;\n  bra M;\nL:\n  mov.u32 %r2, 99;\nM:\n"
                           "  mul.lo.s32 %r3, %r0, 0;\n  or.b32 %r3, %r3, %r2;\n"
                           "  st.global.u32 [%rd0], %r3;\n  ret;"),
            "block 0:\n  store $3, 12\n  exit\n");
}

TEST(Simplify, UnusedLoadsGoUnlessTheyAreVolatile) {
  EXPECT_EQ(Renumbered(SimplifiedText("  ld.global.u32 %r2, [%rd1];\n  ld.volatile.global.u32 %r3, [%rd1+4];\n  ret;")),
            "block 0:\n  v0 = load $4 offset 4\n  exit\n");
}

TEST(Simplify, LeavesAnEndlessEmptyLoopAlone) {
  EXPECT_THAT(SimplifiedText("L:\n  bra M;\nM:\n  bra L;"), HasSubstr("jump"));
}

TEST(Simplify, MergesEqualValuesAcrossBlocks) {
  const std::string text = SimplifiedText(
      "  ld.global.u32 %r2, [%rd1];\n  xor.b32 %r3, %r2, %r0;\n  setp.eq.s32 %p1, %r2, 0;\n  @%p1 bra L;\n"
      "  xor.b32 %r4, %r0, %r2;\n  st.global.u32 [%rd0], %r4;\nL:\n  st.global.u32 [%rd0+4], %r3;\n  ret;");
  EXPECT_EQ(text.find("xor", text.find("xor") + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace qgpu::lower
