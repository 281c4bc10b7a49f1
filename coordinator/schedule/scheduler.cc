#include "coordinator/schedule/scheduler.h"

#include <algorithm>

namespace qgpu {

Scheduler::Scheduler(std::vector<WorkItem> items, const SchedulerOptions& options)
    : options_(options), random_(options.seed), next_attempt_(options.first_attempt) {
  states_.reserve(items.size());
  for (const WorkItem& item : items) states_.push_back({item, Phase::kWaiting, 0, 0, {}});
}

void Scheduler::MarkDone(int item) {
  if (states_[item].phase == Phase::kDone) return;
  states_[item].phase = Phase::kDone;
  ++done_;
}

void Scheduler::MarkReady(int case_index) {
  for (State& state : states_) {
    if (state.item.case_index == case_index && state.phase == Phase::kWaiting) state.phase = Phase::kPending;
  }
}

std::optional<Lease> Scheduler::Acquire(int worker, int64_t now_ms) {
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (state.item.worker != worker || state.phase != Phase::kPending || state.not_before_ms > now_ms) continue;
    state.phase = Phase::kLeased;
    ++state.attempts;
    state.lease = {options_.attempt_prefix + "-" + std::to_string(next_attempt_++), static_cast<int>(i),
                   state.item.attempts_before + state.attempts,
                   now_ms + (state.item.lease_ms > 0 ? state.item.lease_ms : options_.lease_ms)};
    return state.lease;
  }
  return std::nullopt;
}

Scheduler::Effect Scheduler::FailInfrastructure(State& state, int64_t now_ms) {
  if (state.attempts >= options_.max_attempts) {
    state.phase = Phase::kDone;
    ++done_;
    return Effect::kExhausted;
  }
  const int doublings = std::min(state.attempts - 1, 20);
  const int64_t pause = std::min(options_.backoff_ms << doublings, options_.max_backoff_ms);
  state.phase = Phase::kPending;
  state.not_before_ms = now_ms + pause + static_cast<int64_t>(random_.Below(static_cast<uint32_t>(pause) + 1));
  return Effect::kRetry;
}

Scheduler::Effect Scheduler::Complete(const std::string& attempt_id, Outcome outcome, int64_t now_ms) {
  for (State& state : states_) {
    if (state.phase != Phase::kLeased || state.lease.attempt_id != attempt_id) continue;
    if (outcome == Outcome::kInfrastructure) return FailInfrastructure(state, now_ms);
    state.phase = Phase::kDone;
    ++done_;
    return Effect::kDone;
  }
  return Effect::kLate;
}

bool Scheduler::Holds(const std::string& attempt_id) const {
  return std::any_of(states_.begin(), states_.end(), [&attempt_id](const State& state) {
    return state.phase == Phase::kLeased && state.lease.attempt_id == attempt_id;
  });
}

std::vector<Scheduler::Expired> Scheduler::ExpireLeases(int64_t now_ms) {
  std::vector<Expired> expired;
  for (State& state : states_) {
    if (state.phase != Phase::kLeased || state.lease.deadline_ms > now_ms) continue;
    const Lease lease = state.lease;
    expired.push_back({lease, FailInfrastructure(state, now_ms)});
  }
  return expired;
}

std::optional<int64_t> Scheduler::NextChange() const {
  std::optional<int64_t> next;
  for (const State& state : states_) {
    std::optional<int64_t> at;
    if (state.phase == Phase::kLeased) at = state.lease.deadline_ms;
    if (state.phase == Phase::kPending) at = state.not_before_ms;
    if (at.has_value()) next = next.has_value() ? std::min(*next, *at) : *at;
  }
  return next;
}

}  // namespace qgpu
