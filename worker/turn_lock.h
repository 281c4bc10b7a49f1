// One launch, conversation or measurement at a time; a few others wait for their turn within their deadlines.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

#include "common/status.h"
#include "common/stopwatch.h"
#include "proto/limits.h"

namespace qgpu {

class TurnLock {
 public:
  struct Turn {
    std::unique_lock<std::timed_mutex> lock;
    int64_t wait_ns = 0;
  };

  // kResourceExhausted where too many wait already, kDeadlineExceeded where the turn did not come in time, kCancelled
  // where the caller is gone: its place is another's then.
  absl::StatusOr<Turn> Take(std::chrono::system_clock::time_point deadline, const std::function<bool()>& is_cancelled) {
    const Stopwatch watch;
    if (++waiting_ > kMaxWaitingLaunches) {
      --waiting_;
      return absl::ResourceExhaustedError(
          fmt::format("{} launches wait already; try again later", kMaxWaitingLaunches));
    }
    Turn turn{std::unique_lock(mutex_, std::defer_lock)};
    const absl::Status waited = Wait(turn.lock, deadline, is_cancelled);
    --waiting_;
    QGPU_RETURN_IF_ERROR(waited);
    turn.wait_ns = watch.ns();
    return turn;
  }

 private:
  static constexpr std::chrono::milliseconds kLook{100};  // whether the caller is still there

  static absl::Status Wait(std::unique_lock<std::timed_mutex>& lock, std::chrono::system_clock::time_point deadline,
                           const std::function<bool()>& is_cancelled) {
    using Clock = std::chrono::system_clock;
    while (!is_cancelled()) {
      if (lock.try_lock_until(std::min(deadline, Clock::now() + kLook))) return absl::OkStatus();
      if (Clock::now() >= deadline) return absl::DeadlineExceededError("the worker was busy until the deadline");
    }
    return absl::CancelledError("the caller ended the call while it waited for its turn");
  }

  std::timed_mutex mutex_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace qgpu
