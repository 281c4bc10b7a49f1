#include "cli/ptx_document.h"

#include <set>

#include "cli/ptx_forms.h"
#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/translate/translate.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PtxDocument, TheOneInTheTreeIsUpToDate) {
  const auto committed = ReadFile(QGPU_SOURCE_DIR "/docs/PTX.md");
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(*committed, PtxDocument()) << "refresh it: build/bin/qgpu-ptx-document > docs/PTX.md";
}

// The table of the document and that of the lowering name the same opcodes.
TEST(PtxForms, EveryOpcodeOfTheLoweringHasAForm) {
  std::set<std::string> tried;
  for (const PtxSection& section : IntegerPtx()) {
    for (const PtxForms& row : section.rows) {
      for (const std::string& form : ExpandPattern(row.pattern)) tried.insert(form.substr(0, form.find('.')));
    }
  }
  for (const std::string& opcode : lower::SupportedOpcodes()) EXPECT_TRUE(tried.contains(opcode)) << opcode;
}

// The oracle takes whatever the machine takes: what it refuses could not be judged.
TEST(PtxForms, NativeCpuTakesWhatTheLoweringTakes) {
  for (const PtxSection& section : IntegerPtx()) {
    for (const PtxForms& row : section.rows) {
      for (const std::string& form : ExpandPattern(row.pattern)) {
        const auto native = NativeCpuKernel::Compile("form.ptx", PtxOfForm(form, row.operands), "k");
        if (native.ok()) continue;
        EXPECT_NE(WhyRefused(form, row.operands), "") << native.status();
      }
    }
  }
}

TEST(PtxForms, PatternsAndRefusals) {
  EXPECT_THAT(ExpandPattern("add.{u16 s32}[.x .y]"),
              ElementsAre("add.u16", "add.u16.x", "add.u16.y", "add.s32", "add.s32.x", "add.s32.y"));
  EXPECT_THAT(ExpandPattern("ret"), ElementsAre("ret"));
  EXPECT_EQ(WhyRefused("add.u32", "$T0, $T1, $T2"), "");
  EXPECT_THAT(WhyRefused("add.f32", "%f0, %f1, %f2"), HasSubstr("floating point"));
  EXPECT_THAT(WhyRefused("add.u32", "$T0, $T1"), HasSubstr("operands"));
  for (const PtxSection& section : OtherPtx()) {
    for (const PtxForms& row : section.rows) {
      for (const std::string& form : ExpandPattern(row.pattern)) {
        EXPECT_NE(WhyRefused(form, row.operands), "") << form << " " << row.operands;
      }
    }
  }
}

}  // namespace
}  // namespace qgpu
