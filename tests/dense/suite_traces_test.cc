#include "tests/dense/suite_traces.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace qgpu {
namespace {

std::set<std::string> Union(const std::vector<SuiteTrace>& traces) {
  std::set<std::string> all;
  for (const SuiteTrace& trace : traces) all.merge(OperationsOf(trace));
  return all;
}

TEST(SuiteTraces, AHandfulDoesWhatAllDo) {
  const absl::StatusOr<std::vector<SuiteTrace>> all = AllTraces();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_GT(all->size(), 250u);
  const std::vector<SuiteTrace> handful = CoveringTraces(*all);
  EXPECT_EQ(Union(handful), Union(*all));
  EXPECT_LE(handful.size(), 16u);
  EXPECT_TRUE(std::any_of(handful.begin(), handful.end(), [](const auto& t) { return t.end == LaunchEnd::kTrap; }));
  size_t positions = 0;
  for (const SuiteTrace& trace : handful) {
    std::printf("%-40s %5zu host tokens %5zu written\n", trace.Id().c_str(), trace.host.size(), trace.trace.size());
    positions += trace.host.size() + trace.trace.size();
  }
  std::printf("%zu of %zu traces, %zu positions, %zu kinds of operations\n", handful.size(), all->size(), positions,
              Union(*all).size());
  // Without any one of them something is missing: greedy may leave what later ones made needless, but not much.
  size_t needless = 0;
  for (size_t i = 0; i < handful.size(); ++i) {
    std::vector<SuiteTrace> others = handful;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    needless += Union(others) == Union(*all);
  }
  EXPECT_LE(needless, 2u);
}

}  // namespace
}  // namespace qgpu
