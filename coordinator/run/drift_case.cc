#include "coordinator/run/drift_case.h"

#include <algorithm>

#include "common/sha256.h"
#include "common/stopwatch.h"
#include "coordinator/judge/judge.h"
#include "coordinator/run/drift_check.h"
#include "evals/drift/judge.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

// The launch that precedes a text: what the host feeds, and what the model has to write.
struct DriftLaunch {
  std::vector<int32_t> host_ids, expected;
  int64_t token_budget = 0;
};

// Checks what the worker sends, keeps the rows, and compares the launch's tokens with the trace.
class DriftReceiver final : public DriftSink {
 public:
  // `known`: what a job that is taken up goes on with. `lengths` of texts for `base`. All must outlive this.
  DriftReceiver(const DriftJob& job, const DriftRow& known, bool needs_noise_floor, const DriftLaunch* launch,
                DriftLengths& lengths, const std::string& base, ItemJournal& journal)
      : job_(job),
        known_(known),
        check_(job, needs_noise_floor),
        launch_(launch),
        lengths_(lengths),
        base_(base),
        journal_(journal) {}

  absl::Status OnStart(const DriftStart& sent) override {
    DriftStart start = sent;
    QGPU_RETURN_IF_ERROR(check_.Start(start));
    QGPU_RETURN_IF_ERROR(lengths_.Agree(job_.text_name, base_, start.positions));
    if (job_.first_position > 0) return CheckIsKnown(start);
    DriftRow row;
    row.measurement = start.measurement;
    row.token_source = start.token_source;
    row.reference = start.reference;
    row.merged = start.merged;
    row.positions = start.positions;
    return Kept(journal_.BeginDrift(row));
  }

  absl::Status OnLaunchTokens(std::span<const int32_t> ids) override {
    QGPU_RETURN_IF_ERROR(check_.Launch());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    // It is wrong already where a token differs; nothing that follows it is of use.
    const size_t both = std::min(ids_.size(), launch_->expected.size());
    const bool differs = ids_.size() > both || !std::equal(ids_.begin(), ids_.end(), launch_->expected.begin());
    return differs ? JudgeLaunch() : absl::OkStatus();
  }

  absl::Status OnLaunchEnd() override {
    QGPU_RETURN_IF_ERROR(check_.LaunchEnd());
    return JudgeLaunch();
  }

  absl::Status OnRows(const DriftChunk& sent) override {
    DriftChunk chunk = sent;
    QGPU_RETURN_IF_ERROR(check_.Rows(chunk));
    return Kept(journal_.AppendDrift(chunk));
  }

  absl::Status End() const { return check_.End(); }
  // The launch's tokens, judged; none: there was none, or it has not come to that.
  const std::optional<LaunchRow>& launch() const { return judged_; }
  bool launch_is_wrong() const { return judged_.has_value() && judged_->mismatches > 0; }
  // Why nothing could be kept, if so.
  const absl::Status& not_kept() const { return not_kept_; }

 private:
  absl::Status CheckIsKnown(const DriftStart& start) const {
    if (start.positions == known_.positions && start.has_noise_floor == !known_.noise.rows.empty()) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        "breaks the protocol: the measurement that is taken up has another length, or another noise floor, than "
        "before");
  }
  absl::Status JudgeLaunch() {
    judged_ = CompareTokens(launch_->expected, ids_);
    judged_->host_tokens = std::ssize(launch_->host_ids);
    return launch_is_wrong() ? absl::CancelledError("the launch before the text is wrong") : absl::OkStatus();
  }
  absl::Status Kept(const absl::Status& status) {
    not_kept_.Update(status);
    return status;
  }

  const DriftJob& job_;
  const DriftRow& known_;
  DriftCheck check_;
  const DriftLaunch* launch_;
  DriftLengths& lengths_;
  const std::string& base_;
  ItemJournal& journal_;
  std::vector<int32_t> ids_;
  std::optional<LaunchRow> judged_;
  absl::Status not_kept_;
};

AttemptOutcome Infrastructure(const absl::Status& status) {
  AttemptOutcome outcome;
  outcome.is_infrastructure = true;
  outcome.message = std::string(status.message());
  return outcome;
}

// A remedy, not a silence: a figure that nobody measured looks like one that is not needed.
AttemptOutcome CannotMeasure(const NodeRow& node, const std::string& probe) {
  AttemptOutcome outcome;
  outcome.status = CaseStatus::kUnsupported;
  outcome.message =
      node.drift_probes.empty()
          ? fmt::format(
                "worker {} hosts no base model, so it cannot measure drift; use a qgpu-worker that was built "
                "with libtorch (-DQGPU_TORCH=ON) and give it a base (--base DIR), or leave the suite out",
                node.name)
          : fmt::format("worker {} cannot measure {}, only {}", node.name, probe, fmt::join(node.drift_probes, ", "));
  return outcome;
}

DriftStatistics StatisticsOf(const TextDrift& text) {
  DriftStatistics statistics;
  for (size_t i = 0; i < text.rows.size(); ++i) {
    // One text, in order: nothing to refuse.
    statistics.Append(text.name, static_cast<int64_t>(i), text.rows[i]).IgnoreError();
  }
  return statistics;
}

class PreparedDrift final : public PreparedCase {
 public:
  PreparedDrift(DriftProbe probe, DriftJob job, std::optional<DriftLaunch> launch,
                std::shared_ptr<DriftLengths> lengths)
      : probe_(probe), job_(std::move(job)), launch_(std::move(launch)), lengths_(std::move(lengths)) {
    if (!launch_.has_value()) return;
    job_.host_ids = launch_->host_ids;
    job_.token_budget = launch_->token_budget;
  }

  AttemptOutcome Attempt(const WorkerTurn& turn) const override;

 private:
  struct Measured {
    absl::StatusOr<DriftEnd> end;
    AttemptOutcome outcome;  // where `end` is an error, or the launch was wrong
    std::optional<LaunchRow> launch;
    bool is_over = false;  // `outcome` is the attempt's
  };
  // What is known already; empty: nothing. `job` goes on behind it.
  absl::StatusOr<DriftRow> TakeUp(ItemJournal& journal, DriftJob& job) const;
  Measured Measure(const DriftJob& job, const DriftRow& known, const WorkerTurn& turn) const;
  AttemptOutcome Judge(const DriftRow& row) const;

  DriftProbe probe_;
  DriftJob job_;
  std::optional<DriftLaunch> launch_;
  std::shared_ptr<DriftLengths> lengths_;
};

// Goes on behind the last whole chunk. One chunk at least is left, so that it is this worker, with these models, that
// says the measurement is over.
absl::StatusOr<DriftRow> PreparedDrift::TakeUp(ItemJournal& journal, DriftJob& job) const {
  QGPU_ASSIGN_OR_RETURN(const std::optional<DriftRow> known, journal.ReadDrift());
  if (!known.has_value() || known->drift.rows.empty()) return DriftRow();
  const int64_t rows = std::min<int64_t>(std::ssize(known->drift.rows), known->positions - 1);
  const int64_t whole = rows / job.chunk * job.chunk;
  if (whole == 0) return DriftRow();  // BeginDrift drops the rest
  QGPU_RETURN_IF_ERROR(journal.CutDrift(whole));
  job.first_position = whole;
  job.measurement = known->measurement;
  return *known;
}

PreparedDrift::Measured PreparedDrift::Measure(const DriftJob& job, const DriftRow& known,
                                               const WorkerTurn& turn) const {
  DriftReceiver receiver(job, known, BoundOf(probe_) == DriftBound::kTimesNoiseFloor,
                         launch_.has_value() ? &*launch_ : nullptr, *lengths_, turn.node.base, turn.journal);
  Measured measured{turn.worker.MeasureDrift(job, receiver, turn.stop), {}, receiver.launch(), false};
  if (measured.end.ok()) {
    if (const absl::Status complete = receiver.End(); !complete.ok()) {
      measured.end =
          absl::FailedPreconditionError(fmt::format("worker {}: {}", turn.node.name, std::string(complete.message())));
    }
  }
  if (receiver.launch_is_wrong()) {
    measured.is_over = true;
    measured.outcome.status = CaseStatus::kFail;
    measured.outcome.message = "the launch before the text: " + DescribeTokenDifference(*receiver.launch());
    measured.outcome.launch = receiver.launch();
  } else if (!receiver.not_kept().ok()) {
    measured.is_over = true;
    measured.outcome = Infrastructure(receiver.not_kept());
  } else if (!measured.end.ok()) {
    measured.outcome = FailedCall(measured.end.status(), turn.worker);
  }
  return measured;
}

AttemptOutcome PreparedDrift::Attempt(const WorkerTurn& turn) const {
  const auto& probes = turn.node.drift_probes;
  if (std::find(probes.begin(), probes.end(), job_.probe) == probes.end()) return CannotMeasure(turn.node, job_.probe);
  DriftJob job = job_;
  const absl::StatusOr<DriftRow> known = TakeUp(turn.journal, job);
  if (!known.ok()) return Infrastructure(known.status());
  const Stopwatch watch;
  Measured measured = Measure(job, *known, turn);
  if (!measured.is_over && absl::IsAborted(measured.end.status()) && job.first_position > 0) {
    // It measures something else now: a figure of two measurements would be of neither.
    job.first_position = 0;
    job.measurement.clear();
    if (const absl::Status dropped = turn.journal.CutDrift(0); !dropped.ok()) return Infrastructure(dropped);
    measured = Measure(job, *known, turn);
  }
  if (measured.is_over || !measured.end.ok()) return measured.outcome;
  const auto row = turn.journal.ReadDrift();
  if (!row.ok()) return Infrastructure(row.status());
  if (!row->has_value() || !(*row)->complete()) {
    return Infrastructure(absl::InternalError("the rows of a complete measurement are not in the database"));
  }
  AttemptOutcome outcome = Judge(**row);
  outcome.launch = measured.launch;
  outcome.samples.push_back({"feed", "ms", Milliseconds(measured.end->feed_ns)});
  outcome.samples.push_back({"wall", "ms", Milliseconds(watch.ns())});
  return outcome;
}

AttemptOutcome PreparedDrift::Judge(const DriftRow& row) const {
  const DriftVerdict verdict = JudgeDrift(StatisticsOf(row.drift), StatisticsOf(row.noise), BoundOf(probe_));
  AttemptOutcome outcome;
  outcome.status = verdict.within ? CaseStatus::kPass : CaseStatus::kFail;
  outcome.message = verdict.text;
  outcome.samples = DriftSamples(row);
  return outcome;
}

class DriftCase final : public SuiteCase {
 public:
  DriftCase(CaseName name, DriftProbe probe, const DriftText& text, const DriftOptions& options,
            std::optional<KernelCase> launch, std::shared_ptr<DriftLengths> lengths)
      : SuiteCase(std::move(name)), probe_(probe), launch_(std::move(launch)), lengths_(std::move(lengths)) {
    job_.probe = probe.Name();
    job_.text_name = text.name;
    job_.text = text.text;
    job_.positions = options.positions;
    job_.chunk = options.chunk;
    job_.time_limit_ms = options.limit_ms;
  }

  int64_t attempt_limit_ms() const override { return 2 * job_.time_limit_ms; }  // a second time after ABORTED

  absl::StatusOr<std::shared_ptr<const PreparedCase>> Prepare(const CaseTools& tools) const override {
    std::optional<DriftLaunch> launch;
    if (launch_.has_value()) {
      QGPU_ASSIGN_OR_RETURN(const LoweredKernel lowered, CompileKernel(launch_->spec, tools.ptx_cache));
      const MachineRun run = Interpret(lowered.launch, launch_->spec.token_budget);
      launch = DriftLaunch{TokenIds(HostTokens(lowered.launch)), TokenIds(run.tokens), launch_->spec.token_budget};
    }
    return std::make_shared<PreparedDrift>(probe_, job_, std::move(launch), lengths_);
  }

 private:
  DriftProbe probe_;
  DriftJob job_;
  std::optional<KernelCase> launch_;
  std::shared_ptr<DriftLengths> lengths_;
};

std::string CaseHash(const DriftProbe& probe, const DriftText& text, const DriftOptions& options,
                     const std::optional<KernelCase>& launch) {
  return Sha256Hex(fmt::format("{}\n{}\n{}\n{} positions\nchunk {}\n{}\n", probe.Name(), text.name,
                               Sha256Hex(text.text), options.positions, options.chunk,
                               launch.has_value() ? launch->hash : "no launch"));
}

absl::StatusOr<KernelCase> LaunchBeforeText() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  for (const KernelCase& one : suite.cases) {
    if (one.Id() == "dot/demo") return one;
  }
  return absl::InternalError("the suite kernels has no case dot/demo, which precedes the texts of some drift probes");
}

void AddSamples(const DriftSummary& summary, const std::string& prefix, std::vector<Sample>& samples) {
  const Sample all[] = {{"kl_mean", "nats", summary.mean},
                        {"kl_mean_low", "nats", summary.mean_interval.low},
                        {"kl_mean_high", "nats", summary.mean_interval.high},
                        {"kl_median", "nats", summary.median},
                        {"kl_p90", "nats", summary.p90},
                        {"kl_p99", "nats", summary.p99},
                        {"kl_p999", "nats", summary.p999},
                        {"kl_max", "nats", summary.max},
                        {"kl_min", "nats", summary.min},
                        {"same_top", "share", summary.same_top},
                        {"top_overlap", "share", summary.top_overlap},
                        {"base", "perplexity", summary.base_perplexity},
                        {"merged", "perplexity", summary.merged_perplexity}};
  for (const Sample& sample : all) samples.push_back({prefix + sample.metric, sample.unit, sample.value});
}

}  // namespace

const std::vector<DriftProbe>& DefaultDriftProbes() {
  static const std::vector<DriftProbe> probes = [] {
    std::vector<DriftProbe> chosen;
    for (const DriftProbe& probe : AllDriftProbes()) {
      if (!probe.after_launch || !probe.bfloat16) chosen.push_back(probe);
    }
    return chosen;
  }();
  return probes;
}

absl::StatusOr<std::vector<DriftProbe>> DriftProbesNamed(const std::vector<std::string>& words) {
  std::vector<DriftProbe> chosen;
  const auto choose = [&chosen](const DriftProbe& probe) {
    if (std::find(chosen.begin(), chosen.end(), probe) == chosen.end()) chosen.push_back(probe);
  };
  for (const std::string& word : words) {
    if (word == "default" || word == "all") {
      for (const DriftProbe& probe : word == "all" ? AllDriftProbes() : DefaultDriftProbes()) choose(probe);
    } else {
      QGPU_ASSIGN_OR_RETURN(const DriftProbe probe, DriftProbeFromName(word));
      choose(probe);
    }
  }
  return chosen;
}

absl::StatusOr<DriftSuite> MakeDriftSuite(const std::vector<DriftProbe>& probes, const std::vector<DriftText>& texts,
                                          const DriftOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const KernelCase launch, LaunchBeforeText());
  DriftSuite suite;
  const auto lengths = std::make_shared<DriftLengths>();
  std::string content = suite.name + "\n";
  for (const DriftProbe& probe : probes) {
    const std::optional<KernelCase> before = probe.after_launch ? std::optional(launch) : std::nullopt;
    for (const DriftText& text : texts) {
      CaseName name{SuiteKind::kDrift, suite.name, probe.Name(), text.name, CaseHash(probe, text, options, before)};
      content += fmt::format("{} {}\n", name.Id(), name.hash);
      suite.cases.push_back(std::make_shared<DriftCase>(std::move(name), probe, text, options, before, lengths));
    }
  }
  suite.hash = Sha256Hex(content);
  return suite;
}

std::vector<Sample> DriftSamples(const DriftRow& row) {
  std::vector<Sample> samples;
  const DriftSummary summary = DriftStatistics::Summarize(row.drift);
  AddSamples(summary, "", samples);
  samples.push_back({"positions", "count", static_cast<double>(summary.positions)});
  samples.push_back({"machine_mean", "share", summary.machine_share});
  samples.push_back({"machine_max", "share", summary.machine_share_max});
  if (!row.noise.rows.empty()) AddSamples(DriftStatistics::Summarize(row.noise), "noise_", samples);
  return samples;
}

}  // namespace qgpu
