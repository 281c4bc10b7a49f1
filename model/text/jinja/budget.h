// What a rendering may use up, so that it ends whatever the template does: every walk over values counts here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/status.h"

namespace qgpu::jinja {

inline constexpr int64_t kMostSteps = 10'000'000;          // expressions and statements run, values walked over
inline constexpr int64_t kMostBytes = int64_t{256} << 20;  // of strings and lists made, in all

class Budget {
 public:
  absl::Status Step() { return Steps(1); }
  absl::Status Steps(size_t count) {
    steps_ += static_cast<int64_t>(std::min<size_t>(count, kMostSteps + 1));
    return steps_ <= kMostSteps
               ? absl::OkStatus()
               : absl::InvalidArgumentError(fmt::format("the template takes more than {} steps", kMostSteps));
  }
  // Before text of that size is read through, compared or copied for a moment: a step for every 64 bytes.
  absl::Status Read(size_t bytes) { return Steps(bytes / 64); }
  // Before something of that size is made.
  absl::Status Charge(size_t bytes) { return Grow(std::min<size_t>(bytes, kMostBytes) + 16); }
  // Before something that is being made grows.
  absl::Status Grow(size_t bytes) {
    bytes_ += static_cast<int64_t>(std::min<size_t>(bytes, kMostBytes + 16));
    return bytes_ <= kMostBytes ? absl::OkStatus()
                                : absl::InvalidArgumentError(
                                      fmt::format("the template makes values of more than {} MiB", kMostBytes >> 20));
  }
  absl::Status ChargeElements(size_t count);  // of a list

 private:
  int64_t steps_ = 0, bytes_ = 0;
};

}  // namespace qgpu::jinja
