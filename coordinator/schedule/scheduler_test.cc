#include "coordinator/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace qgpu {
namespace {

using Effect = Scheduler::Effect;
using Outcome = Scheduler::Outcome;

Scheduler ReadyScheduler(std::vector<WorkItem> items, SchedulerOptions options = {}) {
  Scheduler scheduler(items, options);
  for (const WorkItem& item : items) scheduler.MarkReady(item.case_index);
  return scheduler;
}

TEST(SchedulerTest, GivesOutItemsInOrderToTheirOwnWorkerOnly) {
  Scheduler scheduler = ReadyScheduler({{0, 0, 1}, {0, 1, 1}, {1, 0, 1}});
  EXPECT_EQ(scheduler.Acquire(0, 0)->item, 0);
  EXPECT_EQ(scheduler.Acquire(0, 0)->item, 2);
  EXPECT_FALSE(scheduler.Acquire(0, 0).has_value());
  EXPECT_EQ(scheduler.Acquire(1, 0)->item, 1);
  EXPECT_FALSE(scheduler.Acquire(2, 0).has_value());
}

TEST(SchedulerTest, ItemsWaitUntilTheirCaseIsReady) {
  Scheduler scheduler({{0, 0, 1}, {1, 0, 1}}, {});
  EXPECT_FALSE(scheduler.Acquire(0, 0).has_value());
  scheduler.MarkReady(1);
  EXPECT_EQ(scheduler.Acquire(0, 0)->item, 1);
  EXPECT_FALSE(scheduler.Acquire(0, 0).has_value());
}

TEST(SchedulerTest, AFinalResultIsNeverTriedAgain) {
  Scheduler scheduler = ReadyScheduler({{0, 0, 1}});
  const Lease lease = *scheduler.Acquire(0, 0);
  EXPECT_EQ(scheduler.Complete(lease.attempt_id, Outcome::kFinal, 5), Effect::kDone);
  EXPECT_TRUE(scheduler.AllDone());
  EXPECT_FALSE(scheduler.Acquire(0, 1'000'000).has_value());
  EXPECT_EQ(scheduler.Complete(lease.attempt_id, Outcome::kFinal, 6), Effect::kLate);
  EXPECT_EQ(scheduler.done_count(), 1);
}

TEST(SchedulerTest, InfrastructureFailuresAreRetriedAfterAPauseAndOnlySoOften) {
  SchedulerOptions options;
  options.max_attempts = 3;
  options.backoff_ms = 100;
  Scheduler scheduler = ReadyScheduler({{0, 0, 1}}, options);
  int64_t now = 0;
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto lease = scheduler.Acquire(0, now);
    ASSERT_TRUE(lease.has_value()) << attempt;
    EXPECT_EQ(lease->attempt, attempt);
    const Effect effect = scheduler.Complete(lease->attempt_id, Outcome::kInfrastructure, now);
    EXPECT_EQ(effect, attempt < 3 ? Effect::kRetry : Effect::kExhausted);
    if (attempt == 3) break;
    const int64_t pause = *scheduler.NextChange() - now;
    EXPECT_GE(pause, 100 << (attempt - 1));
    EXPECT_LE(pause, 2 * (100 << (attempt - 1)));
    EXPECT_FALSE(scheduler.Acquire(0, now + pause - 1).has_value());
    now += pause;
  }
  EXPECT_TRUE(scheduler.AllDone());
}

TEST(SchedulerTest, ALostLeaseIsGivenOutAgainAndItsLateResultIgnored) {
  SchedulerOptions options;
  options.lease_ms = 1000;
  Scheduler scheduler = ReadyScheduler({{0, 0, 1}}, options);
  const Lease lost = *scheduler.Acquire(0, 0);
  EXPECT_TRUE(scheduler.ExpireLeases(999).empty());
  const auto expired = scheduler.ExpireLeases(1000);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].lease.attempt_id, lost.attempt_id);
  EXPECT_EQ(expired[0].effect, Effect::kRetry);
  const Lease again = *scheduler.Acquire(0, *scheduler.NextChange());
  EXPECT_NE(again.attempt_id, lost.attempt_id);
  EXPECT_EQ(scheduler.Complete(lost.attempt_id, Outcome::kFinal, 2000), Effect::kLate);
  EXPECT_FALSE(scheduler.AllDone());
  EXPECT_EQ(scheduler.Complete(again.attempt_id, Outcome::kFinal, 2001), Effect::kDone);
}

TEST(SchedulerTest, WhatWasDoneBeforeIsNotDoneAgain) {
  SchedulerOptions options;
  options.first_attempt = 8;
  Scheduler scheduler = ReadyScheduler({{0, 0, 1}, {1, 0, 1, 0, 2}}, options);
  scheduler.MarkDone(0);
  scheduler.MarkDone(0);
  EXPECT_EQ(scheduler.done_count(), 1);
  const Lease lease = *scheduler.Acquire(0, 0);
  EXPECT_EQ(lease.item, 1);
  EXPECT_EQ(lease.attempt_id, "run-8");
  EXPECT_EQ(lease.attempt, 3);
  // It has as many tries as any item, whatever happened then.
  EXPECT_EQ(scheduler.Complete(lease.attempt_id, Outcome::kInfrastructure, 0), Effect::kRetry);
}

TEST(SchedulerTest, AnItemMayHaveALongerLease) {
  SchedulerOptions options;
  options.lease_ms = 1000;
  Scheduler scheduler = ReadyScheduler({{0, 0, 1, 5000, 0}}, options);
  const Lease lease = *scheduler.Acquire(0, 0);
  EXPECT_TRUE(scheduler.ExpireLeases(4999).empty());
  EXPECT_TRUE(scheduler.Holds(lease.attempt_id));
  EXPECT_EQ(scheduler.ExpireLeases(5000).size(), 1u);
  EXPECT_FALSE(scheduler.Holds(lease.attempt_id)) << "a late attempt must not write";
}

// Workers that fail, hang and answer late at random: every item is done exactly once, never more attempts than allowed,
// never two leases on one item at a time.
TEST(SchedulerTest, RandomFaultsNeverLoseOrDuplicateAnItem) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SplitMix64 random(seed);
    std::vector<WorkItem> items;
    for (int c = 0; c < 10; ++c) items.push_back({c, static_cast<int>(random.Below(3)), 1});
    SchedulerOptions options;
    options.lease_ms = 500;
    options.seed = seed;
    Scheduler scheduler = ReadyScheduler(items, options);
    std::map<int, int> attempts, finished;
    std::vector<std::pair<int64_t, Lease>> running;
    for (int64_t now = 0; !scheduler.AllDone() && now < 100'000; now += 10) {
      for (const auto& expired : scheduler.ExpireLeases(now)) {
        if (expired.effect == Effect::kExhausted) ++finished[expired.lease.item];
      }
      for (size_t i = 0; i < running.size();) {
        if (running[i].first > now) {
          ++i;
          continue;
        }
        const Lease lease = running[i].second;
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        const Outcome outcome = random.Below(3) == 0 ? Outcome::kInfrastructure : Outcome::kFinal;
        const Effect effect = scheduler.Complete(lease.attempt_id, outcome, now);
        if (effect == Effect::kDone || effect == Effect::kExhausted) ++finished[lease.item];
      }
      for (int worker = 0; worker < 3; ++worker) {
        if (const auto lease = scheduler.Acquire(worker, now)) {
          EXPECT_EQ(items[lease->item].worker, worker);
          ++attempts[lease->item];
          running.push_back({now + random.Below(800), *lease});
        }
      }
    }
    ASSERT_TRUE(scheduler.AllDone()) << "seed " << seed;
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(finished[i], 1) << "seed " << seed << " item " << i;
      EXPECT_LE(attempts[i], options.max_attempts) << "seed " << seed << " item " << i;
    }
  }
}

}  // namespace
}  // namespace qgpu
