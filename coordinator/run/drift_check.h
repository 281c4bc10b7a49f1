// What a worker may send of a drift measurement. Nothing of it is believed before it was checked here: order, counts,
// lengths, and what every number can be. A row itself cannot be checked, since nobody but the worker runs the models.
#pragma once

#include <string>
#include <vector>

#include "coordinator/run/parties.h"

namespace qgpu {

// In order: one Start, then for a job with a launch any Tokens and one LaunchEnd, then Rows from the job's first
// position to the measurement's last, then End. Errors are kFailedPrecondition and name what is against the protocol.
class DriftCheck {
 public:
  // `needs_noise_floor`: the bound is about it. `job` must outlive this.
  DriftCheck(const DriftJob& job, bool needs_noise_floor) : job_(job), needs_noise_floor_(needs_noise_floor) {}

  // Also makes the texts printable and cuts those that are too long.
  absl::Status Start(DriftStart& start);
  // Tokens may come, or the launch may end.
  absl::Status Launch();
  absl::Status LaunchEnd();
  // Also makes `predicted` printable; it has an entry a row afterwards.
  absl::Status Rows(DriftChunk& chunk);
  absl::Status End() const;

 private:
  enum class Phase { kStart, kLaunch, kRows };

  const DriftJob& job_;
  bool needs_noise_floor_;
  Phase phase_ = Phase::kStart;
  bool has_noise_floor_ = false;
  int64_t positions_ = 0, next_ = 0;
};

}  // namespace qgpu
