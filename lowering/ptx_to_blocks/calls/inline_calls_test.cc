#include "lowering/ptx_to_blocks/calls/inline_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu::lower {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHead = ".version 6.4\n.target sm_75\n.address_size 64\n";

absl::StatusOr<std::string> Inlined(const std::string& text) {
  const absl::StatusOr<ptx::Module> module = ptx::ParsePtx("t.ptx", kHead + text);
  if (!module.ok()) return module.status();
  for (const ptx::Function& function : module->functions) {
    if (!function.is_entry) continue;
    const absl::StatusOr<ptx::Function> kernel = InlineCalls(*module, function);
    if (!kernel.ok()) return kernel.status();
    std::string body;
    for (size_t i = 0; i < kernel->instructions.size(); ++i) {
      for (const ptx::Label& label : kernel->labels) {
        if (label.instruction == static_cast<int>(i)) body += label.name + ": ";
      }
      body += ptx::ToString(kernel->instructions[i]) + "\n";
    }
    return body;
  }
  return absl::NotFoundError("no kernel");
}

std::string Text(const std::string& text) {
  const absl::StatusOr<std::string> inlined = Inlined(text);
  EXPECT_TRUE(inlined.ok()) << inlined.status();
  return inlined.ok() ? *inlined : "";
}

std::string Error(const std::string& text) {
  const absl::Status status = Inlined(text).status();
  return std::string(status.message().data(), status.message().size());
}

constexpr const char* kSquare =
    ".func (.param .b32 r) square(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; "
    "st.param.b32 [r], %r2; ret; }\n";

TEST(InlineCalls, ParametersAreRegisters) {
  const std::string text = Text(std::string(kSquare) +
                                ".entry k() { .reg .b32 %r<4>; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; "
                                "call.uni (b), square, (a); ld.param.b32 %r2, [b]; } ret; }");
  EXPECT_THAT(text, Not(HasSubstr("call")));
  EXPECT_THAT(text, Not(HasSubstr("param")));
  EXPECT_THAT(text, HasSubstr("mov.b32 a+0, %r1;"));
  EXPECT_THAT(text, HasSubstr("mul.lo.u32"));
  EXPECT_THAT(text, HasSubstr("mov.b32 %r2, b+0;"));
}

TEST(InlineCalls, ParametersWhoseAddressIsTakenAreInMemory) {
  const std::string text = Text(
      ".func (.param .b32 r) at(.param .align 4 .b8 x[8]) { .reg .b64 %d<2>; .reg .b32 %r<2>; mov.b64 %d1, x; "
      "ld.param.u32 %r1, [%d1+4]; st.param.b32 [r], %r1; ret; }\n"
      ".entry k() { .reg .b32 %r<4>; { .param .align 4 .b8 a[8]; .param .b32 b; st.param.b32 [a+4], %r1; "
      "call.uni (b), at, (a); ld.param.b32 %r2, [b]; } ret; }");
  EXPECT_THAT(text, HasSubstr("st.local.b32 [a.2+4], %r1;"));
  EXPECT_THAT(text, HasSubstr("mov.b64 %d1, a.2;"));
  EXPECT_THAT(text, HasSubstr("ld.local.u32"));
}

TEST(InlineCalls, RegistersOfEachCallAreItsOwn) {
  const std::string call =
      "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), square, (a); "
      "ld.param.b32 %r2, [b]; } ";
  const std::string text = Text(std::string(kSquare) + ".entry k() { .reg .b32 %r<4>; " + call + call + "ret; }");
  EXPECT_THAT(text, HasSubstr("mul.lo.u32 %r2.2, %r1.2, %r1.2;"));
  EXPECT_THAT(text, HasSubstr("mul.lo.u32 %r2.3, %r1.3, %r1.3;"));
}

TEST(InlineCalls, IndirectBranchesAreComparisons) {
  const std::string text = Text(
      ".entry k() { .reg .b32 %r<4>; T: .branchtargets A, A, B, A; brx.idx %r1, T; "
      "A: mov.u32 %r2, 1; B: ret; }");
  EXPECT_THAT(text, Not(HasSubstr("brx")));
  EXPECT_THAT(text, HasSubstr("setp.lt.u32 %below, %r1, 3;"));
  EXPECT_THAT(text, HasSubstr("setp.lt.u32 %below.2, %r1, 2;"));
}

TEST(InlineCalls, PredicatedBarriersGetABranchAround) {
  const std::string text = Text(".entry k() { .reg .pred %p<4>; @!%p1 bar.sync 0; ret; }");
  EXPECT_EQ(text, "@%p1 bra around;\nbar.sync 0;\naround: ret;\n");
}

TEST(InlineCalls, VectorsOfSpecialRegistersAreMovedOneByOne) {
  const std::string text = Text(".entry k() { .reg .u32 %r<5>; mov.v4.u32 {%r1, _, %r3, %r4}, %tid; ret; }");
  EXPECT_EQ(text, "mov.u32 %r1, %tid.x;\nmov.u32 %r3, %tid.z;\nmov.u32 %r4, %tid.w;\nret;\n");
}

TEST(InlineCalls, SaysWhatItCannot) {
  EXPECT_THAT(Error(".func f();\n.entry k() { call f; ret; }"), HasSubstr("t.ptx:5: call f;: not supported"));
  EXPECT_THAT(Error(".func f() { call f; ret; }\n.entry k() { call f; ret; }"), HasSubstr("recursion: f calls itself"));
  EXPECT_THAT(Error(".func f();\n.func g() { call f; ret; }\n.func f() { call g; ret; }\n.entry k() { call f; ret; }"),
              HasSubstr("recursion"));
  EXPECT_THAT(Error(".entry k() { .reg .b64 %d<2>; P: .callprototype _ (); call %d1, (), P; ret; }"),
              HasSubstr("function pointers"));
  EXPECT_THAT(
      Error(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.entry k() { { .param .b64 a; "
            ".param .b64 b; .param .b32 r; call (r), vprintf, (a, b); } ret; }"),
      HasSubstr("printf"));
}

// Each function calls the next one twice: the body would double twenty times.
TEST(InlineCalls, EndsWhereBodiesGrowWithoutBounds) {
  std::string text = ".func f0() { ret; }\n";
  for (int i = 1; i < 25; ++i) text += fmt::format(".func f{0}() {{ call f{1}; call f{1}; ret; }}\n", i, i - 1);
  EXPECT_THAT(Error(text + ".entry k() { call f24; ret; }"), HasSubstr("more than 16384 PTX instructions"));
}

}  // namespace
}  // namespace qgpu::lower
