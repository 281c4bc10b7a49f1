// The main job, on the real model: every kernel of the default suite equal in model, interpreter and native run, every
// position replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/exit_code.h"
#include "common/file.h"
#include "coordinator/store/store.h"
#include "tests/canary/programs.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

TEST(DefaultSuite, EveryKernelIsExactOnTheModel) {
  const TestFolder folder;
  const Finished run = RunCoordinator(folder, {"run-suite"}, {}, /*timeout_s=*/500);
  ASSERT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_EQ(run.out, "kernels 49/49\nchat not run\nadvanced not run\nmean KL not run\n");

  auto store = Store::Open(folder / "qgpu.db");
  ASSERT_TRUE(store.ok()) << store.status();
  const auto report = (*store)->ReadRun(1);
  ASSERT_TRUE(report.ok()) << report.status();
  std::map<std::string, int> cases;
  for (const ItemRow& item : report->items) {
    SCOPED_TRACE(item.CaseId());
    EXPECT_EQ(item.status, CaseStatus::kPass);
    ASSERT_EQ(item.attempts.size(), 1u);
    const LaunchRow& launch = *item.attempts[0].launch;
    EXPECT_EQ(launch.mismatches, 0);
    EXPECT_EQ(launch.positions_checked, launch.tokens);
    EXPECT_GT(launch.tokens, 0);
    if (launch.end == "done") {
      EXPECT_THAT(launch.native_witness, HasSubstr("native-c"));  // cuda or cpu
    }
    if (item.CaseId() == "dot/demo") {
      EXPECT_LE(launch.tokens, 30);
    }
    ++cases[item.kernel];
  }
  EXPECT_EQ(cases.size(), 49u);
  for (const auto& [kernel, count] : cases) EXPECT_GE(count, 4) << kernel;
  const std::string html = ReadFile(folder / "report.html").value_or("");
  EXPECT_THAT(html, HasSubstr("kernels 49/49"));
  EXPECT_THAT(html, HasSubstr("sparse split float32"));
  EXPECT_THAT(ReadFile(folder / "report.csv").value_or(""), HasSubstr("dot,demo,local,1,1,pass,done,"));
}

}  // namespace
}  // namespace qgpu
