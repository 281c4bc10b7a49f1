// What a worker may send of a drift measurement. Nothing of it is believed before it was checked here: order, counts,
// lengths, and what every number can be. A row itself cannot be checked, since nobody but the worker runs the models.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/run/parties.h"

namespace qgpu {

// What the measurements of a suite said of how long their texts are: a base has one tokenizer, so all that are of one
// text and one base are equally long, whichever probe and worker it was. For any thread.
class DriftLengths {
 public:
  // kFailedPrecondition: another length than the first one.
  absl::Status Agree(const std::string& text, const std::string& base, int64_t positions);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, int64_t> first_;
};

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
