// One launch, conversation or measurement at a time; a few others wait for their turn within their deadlines.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "common/status.h"
#include "proto/limits.h"

namespace qgpu {

class TurnLock {
 public:
  struct Turn {
    std::unique_lock<std::timed_mutex> lock;
    int64_t wait_ns = 0;
  };

  // kResourceExhausted where too many wait already, kDeadlineExceeded where the turn did not come in time.
  absl::StatusOr<Turn> Take(std::chrono::system_clock::time_point deadline) {
    const auto arrival = std::chrono::steady_clock::now();
    if (++waiting_ > kMaxWaitingLaunches) {
      --waiting_;
      return absl::ResourceExhaustedError(
          fmt::format("{} launches wait already; try again later", kMaxWaitingLaunches));
    }
    Turn turn{std::unique_lock(mutex_, std::defer_lock)};
    const bool is_ours = turn.lock.try_lock_until(deadline);
    --waiting_;
    if (!is_ours) return absl::DeadlineExceededError("the worker was busy until the deadline");
    turn.wait_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - arrival).count();
    return turn;
  }

 private:
  std::timed_mutex mutex_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace qgpu
