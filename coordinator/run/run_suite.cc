#include "coordinator/run/run_suite.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "coordinator/run/self.h"

namespace qgpu {
namespace {

constexpr int64_t kTickMs = 100;
// A call ends by itself at its deadline; the lease is a second net behind it.
constexpr int64_t kLeaseSlackMs = 60'000;

// One run while it goes on. `mutex_` guards the scheduler, the store, the cases and the progress.
class SuiteRun {
 public:
  SuiteRun(const RunPlan& plan, const std::vector<WorkerClient*>& workers, OracleClient& oracle, Store& store,
           RunListener& listener, const Clocks& clocks)
      : plan_(plan), workers_(workers), oracle_(oracle), store_(store), listener_(listener), clocks_(clocks) {}

  absl::StatusOr<RunReport> Run(std::stop_token stop);

 private:
  absl::Status Begin();
  void PrepareCases();
  std::shared_ptr<const PreparedCase> PrepareWithRetries(const KernelCase& kernel_case);
  void Work(int worker);
  void Record(const Lease& lease, const AttemptOutcome& outcome, int64_t started_ms);
  void ExpireLeases();
  Progress CurrentProgress() const;
  bool Stopping() const { return stop_.stop_requested(); }
  void Fail(const absl::Status& status);

  const RunPlan& plan_;
  const std::vector<WorkerClient*>& workers_;
  OracleClient& oracle_;
  Store& store_;
  RunListener& listener_;
  const Clocks& clocks_;

  PtxCache ptx_cache_;
  std::stop_source stop_;  // of this run: asked for from outside, or because the store failed
  std::atomic<size_t> next_case_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<const PreparedCase>> prepared_;
  std::vector<int64_t> item_ids_;
  std::vector<std::string> worker_names_;
  absl::Status failure_;
  RunRow run_;
  Progress progress_;
  int64_t start_ms_ = 0;
};

absl::Status SuiteRun::Begin() {
  std::vector<NodeRow> nodes = {CoordinatorNode()};
  QGPU_ASSIGN_OR_RETURN(nodes.emplace_back(), oracle_.Describe());
  for (WorkerClient* worker : workers_) {
    QGPU_ASSIGN_OR_RETURN(nodes.emplace_back(), worker->Describe());
    worker_names_.push_back(nodes.back().name);
  }
  run_.started_ms = clocks_.unix_ms();
  run_.quick = plan_.quick;
  run_.repetitions = plan_.repetitions;
  run_.suites = plan_.suites;
  run_.manifest = plan_.manifest;
  for (const NodeRow& node : nodes) run_.manifest.insert(run_.manifest.end(), node.engines.begin(), node.engines.end());
  QGPU_ASSIGN_OR_RETURN(run_.id, store_.BeginRun(run_));
  std::vector<int64_t> worker_ids;
  for (const NodeRow& node : nodes) {
    QGPU_ASSIGN_OR_RETURN(const int64_t node_id, store_.AddNode(run_.id, node));
    if (node.role == "worker") worker_ids.push_back(node_id);
  }
  std::vector<StoredCase> cases;
  std::vector<WorkItem> items;
  std::vector<Store::NewItem> new_items;
  for (size_t c = 0; c < plan_.cases.size(); ++c) {
    const KernelCase& one = plan_.cases[c];
    cases.push_back({one.suite, one.kernel, one.case_name, one.hash});
  }
  for (int repetition = 1; repetition <= plan_.repetitions; ++repetition) {
    for (int c = 0; c < std::ssize(plan_.cases); ++c) {
      for (int w = 0; w < std::ssize(workers_); ++w) {
        items.push_back({c, w, repetition});
        new_items.push_back({c, worker_ids[w], repetition});
      }
    }
  }
  QGPU_ASSIGN_OR_RETURN(item_ids_, store_.AddItems(run_.id, run_, cases, new_items));
  SchedulerOptions scheduling = plan_.scheduling;
  scheduling.lease_ms = plan_.options.launch_limit_ms + kLeaseSlackMs;
  scheduling.attempt_prefix = std::to_string(run_.id);
  scheduler_ = std::make_unique<Scheduler>(items, scheduling);
  prepared_.resize(plan_.cases.size());
  progress_.total = static_cast<int>(items.size());
  return absl::OkStatus();
}

Progress SuiteRun::CurrentProgress() const {
  Progress progress = progress_;
  progress.elapsed_ms = clocks_.steady_ms() - start_ms_;
  return progress;
}

void SuiteRun::Fail(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  stop_.request_stop();
  changed_.notify_all();
}

std::shared_ptr<const PreparedCase> SuiteRun::PrepareWithRetries(const KernelCase& kernel_case) {
  int64_t pause_ms = plan_.scheduling.backoff_ms;
  for (int attempt = 1;; ++attempt) {
    const auto prepared = PrepareCase(kernel_case, plan_.options, ptx_cache_, oracle_, stop_.get_token());
    if (prepared.ok()) return *prepared;
    const bool is_setup = absl::IsFailedPrecondition(prepared.status());
    if (is_setup || attempt >= plan_.scheduling.max_attempts || Stopping()) {
      auto settled = std::make_shared<PreparedCase>();
      settled->settled = Settled{is_setup ? CaseStatus::kError : CaseStatus::kInfra,
                                 fmt::format("{} (tried {} times)", std::string(prepared.status().message()), attempt)};
      return settled;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(pause_ms), [this] { return Stopping(); });
    pause_ms = std::min(2 * pause_ms, plan_.scheduling.max_backoff_ms);
  }
}

void SuiteRun::PrepareCases() {
  for (size_t c = next_case_++; c < plan_.cases.size() && !Stopping(); c = next_case_++) {
    auto prepared = PrepareWithRetries(plan_.cases[c]);
    std::lock_guard lock(mutex_);
    prepared_[c] = std::move(prepared);
    scheduler_->MarkReady(static_cast<int>(c));
    changed_.notify_all();
  }
}

void SuiteRun::Work(int worker) {
  std::unique_lock lock(mutex_);
  while (!Stopping() && !scheduler_->AllDone()) {
    const auto lease = scheduler_->Acquire(worker, clocks_.steady_ms());
    if (!lease.has_value()) {
      changed_.wait_for(lock, std::chrono::milliseconds(kTickMs));
      continue;
    }
    const auto prepared = prepared_[scheduler_->item(lease->item).case_index];
    lock.unlock();
    const int64_t started_ms = clocks_.unix_ms();
    const AttemptOutcome outcome = RunAttempt(*prepared, plan_.options, *workers_[worker], stop_.get_token());
    lock.lock();
    // A call that was cancelled says nothing about its item.
    if (Stopping() && outcome.is_infrastructure) break;
    Record(*lease, outcome, started_ms);
  }
}

void SuiteRun::Record(const Lease& lease, const AttemptOutcome& outcome, int64_t started_ms) {
  using Effect = Scheduler::Effect;
  const auto kind = outcome.is_infrastructure ? Scheduler::Outcome::kInfrastructure : Scheduler::Outcome::kFinal;
  const Effect effect = scheduler_->Complete(lease.attempt_id, kind, clocks_.steady_ms());
  if (effect == Effect::kLate) return;
  AttemptRow attempt;
  attempt.id = lease.attempt_id;
  attempt.number = lease.attempt;
  attempt.started_ms = started_ms;
  attempt.finished_ms = clocks_.unix_ms();
  attempt.status = outcome.status;
  attempt.message = outcome.message;
  attempt.launch = outcome.launch;
  attempt.samples = outcome.samples;
  const bool is_done = effect == Effect::kDone || effect == Effect::kExhausted;
  const absl::Status recorded =
      store_.RecordAttempt(item_ids_[lease.item], attempt, is_done ? std::optional(outcome.status) : std::nullopt);
  if (!recorded.ok()) return Fail(recorded);
  if (attempt.launch.has_value()) progress_.tokens += attempt.launch->tokens;
  if (is_done) {
    ++progress_.done;
    if (outcome.status != CaseStatus::kPass) ++progress_.not_passed;
    const WorkItem& item = scheduler_->item(lease.item);
    listener_.OnItemDone(plan_.cases[item.case_index], worker_names_[item.worker], attempt, CurrentProgress());
  }
  changed_.notify_all();
}

void SuiteRun::ExpireLeases() {
  for (const Scheduler::Expired& expired : scheduler_->ExpireLeases(clocks_.steady_ms())) {
    AttemptRow attempt;
    attempt.id = expired.lease.attempt_id;
    attempt.number = expired.lease.attempt;
    attempt.started_ms = attempt.finished_ms = clocks_.unix_ms();
    attempt.message = "the lease expired without a result";
    const bool is_done = expired.effect == Scheduler::Effect::kExhausted;
    const absl::Status recorded = store_.RecordAttempt(item_ids_[expired.lease.item], attempt,
                                                       is_done ? std::optional(CaseStatus::kInfra) : std::nullopt);
    if (!recorded.ok()) return Fail(recorded);
    if (!is_done) continue;
    ++progress_.done;
    ++progress_.not_passed;
    const WorkItem& item = scheduler_->item(expired.lease.item);
    listener_.OnItemDone(plan_.cases[item.case_index], worker_names_[item.worker], attempt, CurrentProgress());
  }
}

absl::StatusOr<RunReport> SuiteRun::Run(std::stop_token stop) {
  QGPU_RETURN_IF_ERROR(Begin());
  start_ms_ = clocks_.steady_ms();
  listener_.OnStart(run_.id, CurrentProgress());
  const std::stop_callback forward(stop, [this] { stop_.request_stop(); });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::max(1, plan_.preparers); ++i) threads.emplace_back([this] { PrepareCases(); });
    for (int w = 0; w < std::ssize(workers_); ++w) threads.emplace_back([this, w] { Work(w); });
    std::unique_lock lock(mutex_);
    while (!Stopping() && !scheduler_->AllDone()) {
      changed_.wait_for(lock, std::chrono::milliseconds(kTickMs));
      ExpireLeases();
      listener_.OnTick(CurrentProgress());
    }
    changed_.notify_all();
  }
  const bool is_complete = scheduler_->AllDone();
  QGPU_RETURN_IF_ERROR(failure_);
  QGPU_ASSIGN_OR_RETURN(const RunReport recorded, store_.ReadRun(run_.id));
  QGPU_RETURN_IF_ERROR(store_.FinishRun(run_.id, is_complete ? "finished" : "interrupted", VerdictExitCode(recorded),
                                        clocks_.unix_ms()));
  return store_.ReadRun(run_.id);
}

int64_t MillisecondsOf(auto duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

Clocks RealClocks() {
  return {[] { return MillisecondsOf(std::chrono::steady_clock::now().time_since_epoch()); },
          [] { return MillisecondsOf(std::chrono::system_clock::now().time_since_epoch()); }};
}

absl::StatusOr<RunReport> RunSuite(const RunPlan& plan, const std::vector<WorkerClient*>& workers, OracleClient& oracle,
                                   Store& store, RunListener& listener, std::stop_token stop, const Clocks& clocks) {
  return SuiteRun(plan, workers, oracle, store, listener, clocks).Run(stop);
}

}  // namespace qgpu
