#include "oracle/native_cuda/cuda_driver.h"

#include <dlfcn.h>

#include <fstream>

namespace qgpu {
namespace {

// Of the kernel module; the driver library itself tells only the version of CUDA.
std::string KernelDriverVersion() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  std::getline(file, version);
  return version.substr(0, 32);
}

}  // namespace

std::string Describe(const CudaDevice& device) {
  std::string text = fmt::format("{}, compute capability {}", device.name, device.compute_capability);
  if (!device.driver_version.empty()) text += ", driver " + device.driver_version;
  text += ", CUDA " + device.cuda_version;
  if (device.sm_clock_khz > 0) text += fmt::format(", SM {} MHz", device.sm_clock_khz / 1000);
  if (device.memory_clock_khz > 0) text += fmt::format(", memory {} MHz", device.memory_clock_khz / 1000);
  return text;
}

absl::StatusOr<CudaDriver> CudaDriver::Load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* error = dlerror();
    return absl::FailedPreconditionError(
        fmt::format("no CUDA driver: {}", error != nullptr ? error : library + " cannot be loaded"));
  }
  CudaDriver driver;
#define QGPU_CUDA_LOOK_UP(name)                                                                                 \
  driver.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                                      \
  if (driver.name == nullptr) {                                                                                 \
    return absl::FailedPreconditionError(fmt::format(                                                           \
        "{} has no {}: it is no CUDA driver, or one older than CUDA 11; install a newer one", library, #name)); \
  }
  QGPU_CUDA_ENTRY_POINTS(QGPU_CUDA_LOOK_UP)
#undef QGPU_CUDA_LOOK_UP
  return driver;
}

std::string CudaDriver::ErrorText(CUresult error) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(error, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (cuGetErrorString(error, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown to this driver";
  return fmt::format("{} ({}): {}", name, static_cast<int>(error), text);
}

absl::StatusOr<CudaDevice> CudaDriver::FirstDevice() const {
  const auto refuse = [this](const char* call, CUresult error) {
    return absl::FailedPreconditionError(fmt::format("no CUDA device: {}: {}", call, ErrorText(error)));
  };
  if (const CUresult error = cuInit(0); error != CUDA_SUCCESS) return refuse("cuInit", error);
  int count = 0;
  if (const CUresult error = cuDeviceGetCount(&count); error != CUDA_SUCCESS) return refuse("cuDeviceGetCount", error);
  if (count == 0) return absl::FailedPreconditionError("no CUDA device: the driver finds none");
  CUdevice handle = 0;
  if (const CUresult error = cuDeviceGet(&handle, 0); error != CUDA_SUCCESS) return refuse("cuDeviceGet", error);
  CudaDevice device;
  char name[256] = {};
  if (const CUresult error = cuDeviceGetName(name, sizeof(name) - 1, handle); error != CUDA_SUCCESS) {
    return refuse("cuDeviceGetName", error);
  }
  device.name = name;
  int version = 0;
  if (const CUresult error = cuDriverGetVersion(&version); error != CUDA_SUCCESS) {
    return refuse("cuDriverGetVersion", error);
  }
  device.cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  device.driver_version = KernelDriverVersion();
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return cuDeviceGetAttribute(&value, which, handle) == CUDA_SUCCESS ? value : 0;
  };
  device.compute_capability = fmt::format("{}.{}", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                          attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  device.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device.sm_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  device.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  return device;
}

}  // namespace qgpu
