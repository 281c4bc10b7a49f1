#include "coordinator/cli/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace qgpu {

StopSignals::StopSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::jthread([this, signals](std::stop_token ended) {
    while (!ended.stop_requested()) {
      const timespec wait = {0, 100'000'000};
      const int number = sigtimedwait(&signals, nullptr, &wait);
      if (number <= 0) continue;
      if (received_ != 0) _exit(128 + number);
      received_ = number;
      stop_.request_stop();
    }
  });
}

StopSignals::~StopSignals() = default;

}  // namespace qgpu
