#include "common/passive_waiting.h"

#include <unistd.h>

#include <cstdlib>

namespace qgpu {

void RestartWithPassiveWaiting(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || setenv("OMP_WAIT_POLICY", "PASSIVE", 0) != 0) return;
  execv("/proc/self/exe", argv);
}

}  // namespace qgpu
