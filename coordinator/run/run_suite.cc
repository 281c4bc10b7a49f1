#include "coordinator/run/run_suite.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "coordinator/run/self.h"
#include "coordinator/run/take_up.h"
#include "reports/printable.h"

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
  friend class LeasedItem;

  absl::Status Begin();
  absl::Status BeginNew(const RunRow& run, const std::vector<WorkItem>& items);
  absl::Status TakeUp(const RunRow& run, std::vector<WorkItem>& items, SchedulerOptions& scheduling,
                      std::vector<int>& done);
  void PrepareCases();
  std::shared_ptr<const PreparedCase> PrepareWithRetries(const SuiteCase& suite_case);
  void Work(int worker);
  void Record(const Lease& lease, const AttemptOutcome& outcome, int64_t started_ms);
  void CountDone(int item_index, const AttemptRow& attempt);
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
  std::vector<NodeRow> nodes_;         // coordinator, oracle, then the workers in their order
  std::vector<bool> is_case_missing_;  // it has items that are not done

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<const PreparedCase>> prepared_;
  std::vector<int64_t> item_ids_;
  absl::Status failure_;
  int64_t run_id_ = 0;
  Progress progress_;
  int64_t start_ms_ = 0;

  const NodeRow& WorkerNode(int worker) const { return nodes_[nodes_.size() - workers_.size() + worker]; }
};

// The journal of an item, for the attempt that holds its lease.
class LeasedItem final : public ItemJournal {
 public:
  LeasedItem(SuiteRun& run, const Lease& lease) : run_(run), lease_(lease) {}

  absl::StatusOr<std::optional<DriftRow>> ReadDrift() override {
    std::optional<DriftRow> row;
    QGPU_RETURN_IF_ERROR(Do([&](int64_t item_id) -> absl::Status {
      QGPU_ASSIGN_OR_RETURN(row, run_.store_.ReadDrift(item_id));
      return absl::OkStatus();
    }));
    return row;
  }
  absl::Status BeginDrift(const DriftRow& measurement) override {
    return Do([&](int64_t item_id) { return run_.store_.BeginDrift(item_id, measurement); });
  }
  absl::Status CutDrift(int64_t position) override {
    return Do([&](int64_t item_id) { return run_.store_.CutDrift(item_id, position); });
  }
  absl::Status AppendDrift(const DriftChunk& chunk) override {
    return Do([&](int64_t item_id) {
      run_.progress_.positions += std::ssize(chunk.rows);
      return run_.store_.AppendDrift(item_id, chunk.first_position, chunk.rows, chunk.noise, chunk.predicted);
    });
  }

 private:
  // A store that fails ends the run.
  absl::Status Do(const std::function<absl::Status(int64_t)>& action) {
    std::lock_guard lock(run_.mutex_);
    if (!run_.scheduler_->Holds(lease_.attempt_id)) return absl::CancelledError("the item's lease is lost");
    const absl::Status status = action(run_.item_ids_[lease_.item]);
    if (!status.ok()) run_.Fail(status);
    return status;
  }

  SuiteRun& run_;
  const Lease& lease_;
};

absl::Status SuiteRun::Begin() {
  nodes_ = {CoordinatorNode()};
  QGPU_ASSIGN_OR_RETURN(nodes_.emplace_back(), oracle_.Describe());
  for (WorkerClient* worker : workers_) {
    QGPU_ASSIGN_OR_RETURN(nodes_.emplace_back(), worker->Describe());
  }
  RunRow run;
  run.started_ms = clocks_.unix_ms();
  run.quick = plan_.quick;
  run.repetitions = plan_.repetitions;
  run.suites = plan_.suites;
  run.arguments = plan_.arguments;
  run.manifest = plan_.manifest;
  for (const NodeRow& node : nodes_) run.manifest.insert(run.manifest.end(), node.engines.begin(), node.engines.end());

  std::vector<WorkItem> items = OrderItems(plan_.cases, static_cast<int>(workers_.size()), plan_.repetitions);
  for (WorkItem& item : items) item.lease_ms = plan_.cases[item.case_index]->attempt_limit_ms() + kLeaseSlackMs;
  SchedulerOptions scheduling = plan_.scheduling;
  std::vector<int> done;
  if (plan_.take_up == 0) {
    QGPU_RETURN_IF_ERROR(BeginNew(run, items));
  } else {
    QGPU_RETURN_IF_ERROR(TakeUp(run, items, scheduling, done));
  }
  scheduling.attempt_prefix = std::to_string(run_id_);
  scheduler_ = std::make_unique<Scheduler>(items, scheduling);
  for (const int item : done) scheduler_->MarkDone(item);
  prepared_.resize(plan_.cases.size());
  is_case_missing_.assign(plan_.cases.size(), false);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!std::binary_search(done.begin(), done.end(), i)) is_case_missing_[items[i].case_index] = true;
  }
  progress_.total = static_cast<int>(items.size());
  progress_.done = progress_.done_before = static_cast<int>(done.size());
  return absl::OkStatus();
}

absl::Status SuiteRun::BeginNew(const RunRow& run, const std::vector<WorkItem>& items) {
  QGPU_ASSIGN_OR_RETURN(run_id_, store_.BeginRun(run));
  std::vector<int64_t> node_ids;
  for (const NodeRow& node : nodes_) {
    QGPU_ASSIGN_OR_RETURN(node_ids.emplace_back(), store_.AddNode(run_id_, node));
  }
  const size_t first_worker = node_ids.size() - workers_.size();
  std::vector<StoredCase> cases;
  for (const auto& one : plan_.cases) {
    const CaseName& name = one->name();
    cases.push_back({name.suite, name.group, name.name, name.hash});
  }
  std::vector<Store::NewItem> new_items;
  for (const WorkItem& item : items) {
    new_items.push_back({item.case_index, node_ids[first_worker + item.worker], item.repetition});
  }
  QGPU_ASSIGN_OR_RETURN(item_ids_, store_.AddItems(run_id_, run, cases, new_items));
  return absl::OkStatus();
}

// `done` comes back in ascending order.
absl::Status SuiteRun::TakeUp(const RunRow& run, std::vector<WorkItem>& items, SchedulerOptions& scheduling,
                              std::vector<int>& done) {
  QGPU_RETURN_IF_ERROR(store_.ReadRun(plan_.take_up).status());  // first of all: is there such a run?
  QGPU_RETURN_IF_ERROR(store_.ClaimRun(plan_.take_up));
  QGPU_ASSIGN_OR_RETURN(const RunReport stored, store_.ReadRun(plan_.take_up));
  std::vector<PlannedItem> planned;
  for (const WorkItem& item : items) {
    planned.push_back({plan_.cases[item.case_index]->name(), WorkerNode(item.worker).name, item.repetition});
  }
  QGPU_RETURN_IF_ERROR(CheckSameRun(stored, run, planned, nodes_));
  for (size_t i = 0; i < items.size(); ++i) {
    const ItemRow& row = stored.items[i];
    item_ids_.push_back(row.id);
    if (!row.attempts.empty()) items[i].attempts_before = row.attempts.back().number;
    if (!row.status.has_value()) continue;
    done.push_back(static_cast<int>(i));
    if (row.status != CaseStatus::kPass) ++progress_.not_passed;
  }
  scheduling.first_attempt = NextAttempt(stored);
  run_id_ = plan_.take_up;
  return store_.TakeUpRun(run_id_, FormatTime(clocks_.unix_ms()));
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

std::shared_ptr<const PreparedCase> SuiteRun::PrepareWithRetries(const SuiteCase& suite_case) {
  int64_t pause_ms = plan_.scheduling.backoff_ms;
  for (int attempt = 1;; ++attempt) {
    const auto prepared = suite_case.Prepare({ptx_cache_, oracle_, stop_.get_token()});
    if (prepared.ok()) return *prepared;
    const bool is_setup = absl::IsFailedPrecondition(prepared.status());
    if (is_setup || attempt >= plan_.scheduling.max_attempts || Stopping()) {
      return SettledCase({is_setup ? CaseStatus::kError : CaseStatus::kInfra,
                          fmt::format("{} (tried {} times)", std::string(prepared.status().message()), attempt)});
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(pause_ms), [this] { return Stopping(); });
    pause_ms = std::min(2 * pause_ms, plan_.scheduling.max_backoff_ms);
  }
}

void SuiteRun::PrepareCases() {
  for (size_t c = next_case_++; c < plan_.cases.size() && !Stopping(); c = next_case_++) {
    if (!is_case_missing_[c]) continue;
    auto prepared = PrepareWithRetries(*plan_.cases[c]);
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
    LeasedItem journal(*this, *lease);
    const AttemptOutcome outcome =
        prepared->Attempt({*workers_[worker], WorkerNode(worker), journal, stop_.get_token()});
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
  attempt.message = PrintableLines(outcome.message);  // much of it is what a peer said
  attempt.launch = outcome.launch;
  attempt.samples = outcome.samples;
  const bool is_done = effect == Effect::kDone || effect == Effect::kExhausted;
  const absl::Status recorded =
      store_.RecordAttempt(item_ids_[lease.item], attempt, is_done ? std::optional(outcome.status) : std::nullopt);
  if (!recorded.ok()) return Fail(recorded);
  if (attempt.launch.has_value()) progress_.tokens += attempt.launch->tokens;
  if (is_done) CountDone(lease.item, attempt);
  changed_.notify_all();
}

// `attempt` settled the item.
void SuiteRun::CountDone(int item_index, const AttemptRow& attempt) {
  ++progress_.done;
  if (attempt.status != CaseStatus::kPass) ++progress_.not_passed;
  const WorkItem& item = scheduler_->item(item_index);
  listener_.OnItemDone(plan_.cases[item.case_index]->name(), WorkerNode(item.worker).name, attempt, CurrentProgress());
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
    if (is_done) CountDone(expired.lease.item, attempt);
  }
}

absl::StatusOr<RunReport> SuiteRun::Run(std::stop_token stop) {
  QGPU_RETURN_IF_ERROR(Begin());
  start_ms_ = clocks_.steady_ms();
  listener_.OnStart(run_id_, CurrentProgress());
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
  QGPU_ASSIGN_OR_RETURN(const RunReport recorded, store_.ReadRun(run_id_));
  QGPU_RETURN_IF_ERROR(store_.FinishRun(run_id_, is_complete ? "finished" : "interrupted", VerdictExitCode(recorded),
                                        clocks_.unix_ms()));
  return store_.ReadRun(run_id_);
}

int64_t MillisecondsOf(auto duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

std::vector<WorkItem> OrderItems(const std::vector<std::shared_ptr<const SuiteCase>>& cases, int workers,
                                 int repetitions) {
  // What is repeated as a whole.
  const auto same_block = [](const CaseName& a, const CaseName& b) {
    return a.suite == b.suite && (a.kind == SuiteKind::kKernels || a.group == b.group);
  };
  std::vector<WorkItem> items;
  const int count = static_cast<int>(cases.size());
  for (int first = 0, end = 0; first < count; first = end) {
    while (end < count && same_block(cases[first]->name(), cases[end]->name())) ++end;
    for (int repetition = 1; repetition <= repetitions; ++repetition) {
      for (int c = first; c < end; ++c) {
        for (int w = 0; w < workers; ++w) items.push_back({c, w, repetition});
      }
    }
  }
  return items;
}

Clocks RealClocks() {
  return {[] { return MillisecondsOf(std::chrono::steady_clock::now().time_since_epoch()); },
          [] { return MillisecondsOf(std::chrono::system_clock::now().time_since_epoch()); }};
}

absl::StatusOr<RunReport> RunSuite(const RunPlan& plan, const std::vector<WorkerClient*>& workers, OracleClient& oracle,
                                   Store& store, RunListener& listener, std::stop_token stop, const Clocks& clocks) {
  return SuiteRun(plan, workers, oracle, store, listener, clocks).Run(stop);
}

}  // namespace qgpu
