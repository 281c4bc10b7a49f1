// Time that passes, in the units in which it is kept and shown.
#pragma once

#include <chrono>
#include <cstdint>

namespace qgpu {

// Since it was made.
class Stopwatch {
 public:
  int64_t ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

}  // namespace qgpu
