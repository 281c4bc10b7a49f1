// NVIDIA's driver, loaded at run time: a program that has it in no way depends on it.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "oracle/native_cuda/cuda_api.h"
#include "oracle/native_cuda/cuda_device.h"

namespace qgpu {

inline constexpr const char* kCudaLibrary = "libcuda.so.1";

class CudaDriver {
 public:
  // kFailedPrecondition where there is no such library or it lacks an entry point. The library stays loaded for good:
  // it starts threads that cannot be unloaded.
  static absl::StatusOr<CudaDriver> Load(const std::string& library = kCudaLibrary);

  // Initialises the driver and describes the first device (CUDA_VISIBLE_DEVICES decides which that is).
  // kFailedPrecondition where there is none, with the driver's reason.
  absl::StatusOr<CudaDevice> FirstDevice() const;

  // "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
  std::string ErrorText(CUresult error) const;

#define QGPU_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  QGPU_CUDA_ENTRY_POINTS(QGPU_CUDA_MEMBER)
#undef QGPU_CUDA_MEMBER

 private:
  CudaDriver() = default;
};

}  // namespace qgpu
