// A CUDA device, as far as it matters for where a result comes from.
#pragma once

#include <string>

namespace qgpu {

struct CudaDevice {
  std::string name;                // "Tesla T4", as the driver calls it
  std::string compute_capability;  // "7.5"
  std::string cuda_version;        // what the driver implements: "12.4"
  std::string driver_version;      // of the kernel driver, "550.54.15"; empty where the system does not tell
  int multiprocessors = 0;
  int sm_clock_khz = 0, memory_clock_khz = 0;  // peak; 0 where the driver does not tell
  bool operator==(const CudaDevice&) const = default;
};

// "Tesla T4, compute capability 7.5, driver 550.54.15, CUDA 12.4, SM 1590 MHz, memory 5001 MHz"
std::string Describe(const CudaDevice& device);

}  // namespace qgpu
