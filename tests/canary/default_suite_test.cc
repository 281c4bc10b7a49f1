// The main job, on the real model: every kernel of the default suite equal in model, interpreter and native run, every
// position replayed; and every default drift probe within its bound, on fewer positions than the main job's.
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
  const Finished run = RunCoordinator(folder, {"run-suite", "kernels"}, {}, /*timeout_s=*/500);
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

TEST(DefaultSuite, DriftOfTheEmbeddedBaseIsWithinEveryBound) {
  const TestFolder folder;
  const Finished run = RunCoordinator(
      folder, {"run-suite", "drift", "--drift-texts", "prose", "--drift-positions", "24", "--drift-chunk", "16"}, {},
      /*timeout_s=*/500);
#ifdef QGPU_WORKER_HAS_TORCH
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(run.out, HasSubstr("mean KL 0 (split), "));
  auto store = Store::Open(folder / "qgpu.db");
  ASSERT_TRUE(store.ok()) << store.status();
  const auto report = (*store)->ReadRun(1);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->items.size(), 6u);
  for (const ItemRow& item : report->items) {
    SCOPED_TRACE(item.CaseId());
    EXPECT_EQ(item.status, CaseStatus::kPass) << item.LastAttempt()->message;
    ASSERT_TRUE(item.drift.has_value());
    ASSERT_EQ(item.drift->drift.rows.size(), 24u);
    const DriftSummary summary = DriftStatistics::Summarize(item.drift->drift);
    if (item.kernel.starts_with("split")) {
      EXPECT_EQ(summary.max, 0);
    }
    if (item.kernel == "dense-float32") {
      EXPECT_LE(summary.mean, 1e-9);
    }
    // The launch is fed: the base's attention sees keys that it does not know.
    if (item.kernel == "dense-float32-after-launch") {
      EXPECT_GT(summary.max, 1e-12);
    }
  }
#else
  EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
  EXPECT_THAT(run.err, HasSubstr("hosts no base model"));
#endif
}

}  // namespace
}  // namespace qgpu
