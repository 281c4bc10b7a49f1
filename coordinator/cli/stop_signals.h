// SIGINT and SIGTERM as a request to stop. Made before any other thread, so that all of them inherit the mask.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace qgpu {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  std::stop_token token() const { return stop_.get_token(); }
  // The signal that came, or 0. A second one ends the program at once.
  int received() const { return received_; }

 private:
  std::stop_source stop_;
  std::atomic<int> received_ = 0;
  std::jthread thread_;
};

}  // namespace qgpu
