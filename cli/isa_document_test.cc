#include "cli/isa_document.h"

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/isa/isa.h"

namespace qgpu {
namespace {

TEST(IsaDocument, TheOneInTheTreeIsUpToDate) {
  const std::string path = QGPU_SOURCE_DIR "/docs/formats/isa.md";
  const auto committed = ReadFile(path);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(*committed, IsaDocument()) << "refresh it: build/bin/qgpu-isa-document > docs/formats/isa.md";
}

TEST(IsaDocument, NamesEveryOp) {
  const std::string text = IsaDocument();
  for (const OpInfo& info : AllOps()) {
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("| `{:06b}` | `{}` |", static_cast<int>(info.op), info.name)));
  }
}

}  // namespace
}  // namespace qgpu
