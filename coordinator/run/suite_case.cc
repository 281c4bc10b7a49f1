#include "coordinator/run/suite_case.h"

namespace qgpu {
namespace {

class SettledOutcome final : public PreparedCase {
 public:
  explicit SettledOutcome(const Settled& settled) {
    outcome_.status = settled.status;
    outcome_.message = settled.message;
  }
  AttemptOutcome Attempt(const WorkerTurn&) const override { return outcome_; }

 private:
  AttemptOutcome outcome_;
};

}  // namespace

std::shared_ptr<const PreparedCase> SettledCase(const Settled& settled) {
  return std::make_shared<SettledOutcome>(settled);
}

AttemptOutcome FailedCall(const absl::Status& status, WorkerClient& worker) {
  AttemptOutcome outcome;
  outcome.message = std::string(status.message());
  if (absl::IsDeadlineExceeded(status)) {
    outcome.status = CaseStatus::kTimeout;
  } else if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) {
    outcome.status = CaseStatus::kError;
  } else {
    outcome.is_infrastructure = true;
    const std::string death = worker.DeathNote();
    if (!death.empty()) {
      outcome.status = CaseStatus::kCrash;
      outcome.message = fmt::format("{}: {}", death, outcome.message);
    }
  }
  return outcome;
}

}  // namespace qgpu
