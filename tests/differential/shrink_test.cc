// The shrinker against an engine that is wrong on purpose.
#include "tests/differential/shrink.h"

#include <algorithm>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

using testing::HasSubstr;
using testing::Not;

// An engine that takes every exclusive or for an or.
void XorIsOr(Program& program) {
  for (MachineBlock& block : program.blocks) {
    for (Instruction& in : block.slots) {
      if (in.op == Op::kXor) in.op = Op::kOr;
    }
  }
}

bool WrongEngineDisagrees(const LaunchSpec& spec) {
  const Comparison comparison = CompareEngines(spec, XorIsOr);
  return comparison.Disagrees() && CompareEngines(spec).difference.empty();
}

TEST(Shrink, FindsTheExclusiveOrThatAnEngineHasWrong) {
  int shrunk_kernels = 0;
  for (uint64_t seed = 1; seed < 20 && shrunk_kernels < 3; ++seed) {
    const RandomCudaFile file = RandomCuda(seed, 8, /*features=*/0);
    for (size_t k = 0; k < file.kernels.size() && shrunk_kernels < 3; ++k) {
      const RandomKernel& kernel = file.kernels[k];
      const LaunchSpec spec = RandomCudaLaunch(seed * 8 + k, file.source, kernel.name);
      if (kernel.text.size() < 800 || !WrongEngineDisagrees(spec)) continue;
      SCOPED_TRACE(fmt::format("seed {} kernel {}", seed, kernel.name));
      ++shrunk_kernels;
      const Shrunk shrunk = Shrink(spec, file.prelude, kernel.text, WrongEngineDisagrees);
      EXPECT_TRUE(shrunk.is_smallest) << shrunk.attempts;
      EXPECT_TRUE(WrongEngineDisagrees(shrunk.spec));
      const std::string text = shrunk.spec.source.text.substr(file.prelude.size());
      // The kernel, its thread, its output, and one or two statements.
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 7) << text;
      EXPECT_LT(2 * text.size(), kernel.text.size()) << text;
      EXPECT_EQ(shrunk.spec.grid.x, 1u);
      EXPECT_EQ(shrunk.spec.block.x, 1u);
      printf("from %zu to %zu characters in %d tries:\n%s\n", kernel.text.size(), text.size(), shrunk.attempts,
             text.c_str());
    }
  }
  EXPECT_EQ(shrunk_kernels, 3);
}

// Without a compiler: what is kept is what the predicate asks for.
TEST(Shrink, KeepsWhatMattersAndWhatIsPinned) {
  const std::string text =
      "void k() {\n"
      "  int t = 7; //!\n"
      "  one(1);\n"
      "  if (a) {\n"
      "    two(2);\n"
      "  } else {\n"
      "    for (;;) {\n"
      "      three((x + 40), y);\n"
      "    }\n"
      "  }\n"
      "}\n";
  LaunchSpec spec;
  spec.grid.x = 9;
  spec.block.x = 17;
  spec.arguments.resize(2);
  spec.arguments[0].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[0].words = {5, 6, 7};
  spec.arguments[1].scalar = 100;
  const Shrunk shrunk = Shrink(spec, "// prelude\n", text, [](const LaunchSpec& smaller) {
    return smaller.source.text.find("three((x") != std::string::npos && smaller.block.x >= 3 &&
           smaller.arguments[0].words[1] >= 2 && smaller.arguments[1].scalar >= 33;
  });
  EXPECT_TRUE(shrunk.is_smallest);
  EXPECT_EQ(shrunk.spec.source.text, "// prelude\nvoid k() {\n  int t = 7; //!\n      three((x), y);\n}\n");
  EXPECT_EQ(shrunk.spec.grid.x, 1u);
  EXPECT_EQ(shrunk.spec.block.x, 3u);
  EXPECT_EQ(shrunk.spec.arguments[0].words, (std::vector<uint32_t>{0, 2, 0}));
  EXPECT_EQ(shrunk.spec.arguments[1].scalar, 33u);
}

TEST(Shrink, StopsAtItsLimits) {
  LaunchSpec spec;
  spec.block.x = 1000000;
  ShrinkLimits limits;
  limits.attempts = 5;
  const Shrunk shrunk =
      Shrink(spec, "", "void k() {\n}\n", [](const LaunchSpec& smaller) { return smaller.block.x > 3; }, limits);
  EXPECT_EQ(shrunk.attempts, 5);
  EXPECT_FALSE(shrunk.is_smallest);
}

TEST(RandomCuda, EqualSeedsGiveEqualText) {
  EXPECT_EQ(RandomCuda(5, 10).source.text, RandomCuda(5, 10).source.text);
  EXPECT_NE(RandomCuda(5, 10).source.text, RandomCuda(6, 10).source.text);
  unsigned features = 0;
  for (const RandomKernel& kernel : RandomCuda(1, 100).kernels) features |= kernel.features;
  EXPECT_EQ(features, (1u << kRandomFeatures) - 1);
  EXPECT_THAT(RandomCuda(3, 50, 0).source.text, Not(HasSubstr("_sync")));
}

}  // namespace
}  // namespace qgpu
