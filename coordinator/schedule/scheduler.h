// Who works on what: items, leases and attempts as a state machine without clock, threads or network. Time comes in as
// milliseconds of any clock that never goes back; the same calls give the same answers.
//
//   waiting --MarkReady--> pending --Acquire--> leased --Complete(final)--> done
//                             ^                   |  --Complete(infrastructure)--> pending again after a pause, or done
//                             '---ExpireLeases----'                                when the attempts are used up
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/prng.h"

namespace qgpu {

// One (case, worker, repetition).
struct WorkItem {
  int case_index = 0;
  int worker = 0;
  int repetition = 1;
  int64_t lease_ms = 0;     // 0: as the options say
  int attempts_before = 0;  // before the run was taken up; they count in the attempts' numbers only
};

struct SchedulerOptions {
  int max_attempts = 3;        // of an item, infrastructure failures only
  int64_t lease_ms = 180'000;  // then the item is given out again
  int64_t backoff_ms = 200;    // before the second attempt; doubles, and a random part of up to the same is added
  int64_t max_backoff_ms = 5'000;
  std::string attempt_prefix = "run";  // attempt ids are "<prefix>-<number>"
  int64_t first_attempt = 1;           // number of the first of them
  uint64_t seed = 1;                   // of the random parts
};

struct Lease {
  std::string attempt_id;
  int item = 0;     // index of the item
  int attempt = 1;  // its number, from 1
  int64_t deadline_ms = 0;
};

class Scheduler {
 public:
  Scheduler(std::vector<WorkItem> items, const SchedulerOptions& options);

  const WorkItem& item(int index) const { return states_[index].item; }
  int item_count() const { return static_cast<int>(states_.size()); }
  int done_count() const { return done_; }
  bool AllDone() const { return done_ == item_count(); }

  // The item was done before this scheduler was made.
  void MarkDone(int item);

  // The items of this case may be given out. Until then they wait.
  void MarkReady(int case_index);

  // The next item of `worker` that may run now, in the order of the items; nullopt if there is none at the moment.
  std::optional<Lease> Acquire(int worker, int64_t now_ms);

  enum class Outcome { kFinal, kInfrastructure };
  enum class Effect {
    kDone,       // the item counts as done
    kRetry,      // it will be given out again
    kExhausted,  // an infrastructure failure, and the last attempt: the item counts as done
    kLate,       // the lease was lost or the item is done: the result must be ignored
  };
  // What `attempt_id` led to. Only the holder of the item's present lease is listened to.
  Effect Complete(const std::string& attempt_id, Outcome outcome, int64_t now_ms);

  // Whether `attempt_id` holds its item's present lease.
  bool Holds(const std::string& attempt_id) const;

  // Takes back the leases whose deadline has passed, as infrastructure failures. Returns those leases with the effect.
  struct Expired {
    Lease lease;
    Effect effect = Effect::kRetry;
  };
  std::vector<Expired> ExpireLeases(int64_t now_ms);

  // When something may change without a call: the earliest end of a pause or of a lease.
  std::optional<int64_t> NextChange() const;

 private:
  enum class Phase { kWaiting, kPending, kLeased, kDone };
  struct State {
    WorkItem item;
    Phase phase = Phase::kWaiting;
    int attempts = 0;
    int64_t not_before_ms = 0;  // while pending
    Lease lease;                // while leased
  };

  Effect FailInfrastructure(State& state, int64_t now_ms);

  SchedulerOptions options_;
  std::vector<State> states_;
  SplitMix64 random_;
  int64_t next_attempt_;
  int done_ = 0;
};

}  // namespace qgpu
