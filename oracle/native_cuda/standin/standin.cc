// A `libcuda.so.1` of our own, for tests on machines without an NVIDIA GPU: the driver's entry points, and native-cpu
// behind them. Its device says in its name what it is. It keeps what matters about the real driver: kernels run
// asynchronously, an error of a kernel stays for all later calls, PTX that does not compile leaves a log, more than
// 48 KiB of dynamic shared memory must be asked for.
//
// Unlike hardware it finds every access outside of device memory, except between byte 4 and its first allocation.
//
// QGPU_STANDIN_DEVICES   how many devices it has, default 1
// QGPU_STANDIN_FAIL      "cuInit=999": this entry point gives that error; "cuInit=hang": it never returns;
//                        "cuInit=abort": it ends the process
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "lowering/ptx/ptx.h"
#include "oracle/native_cpu/jit.h"
#include "oracle/native_cpu/runtime.h"
#include "oracle/native_cpu/translator.h"
#include "oracle/native_cuda/cuda_api.h"

struct CUctx_st {};

struct CUfunc_st {
  qgpu::native::Footprint footprint;
  std::vector<qgpu::native::ParameterSlot> parameters;
  std::unique_ptr<qgpu::native::JitCode> code;
  uint32_t max_dynamic_shared = 48 << 10;
};

struct CUmod_st {
  std::map<std::string, CUfunc_st> kernels;
};

namespace {

using namespace qgpu;

constexpr const char* kName = "qgpu stand-in (native-cpu)";
constexpr int kCudaVersion = 12040;
constexpr uint32_t kFirstAddress = 512, kAlignment = 512;
constexpr size_t kMemoryBytes = size_t{64} << 20;
constexpr uint32_t kMaxShared = 64 << 10;

struct ErrorName {
  CUresult error;
  const char *name, *text;
};
#define ERROR_NAME(name, text) {name, #name, text}
constexpr ErrorName kErrors[] = {
    ERROR_NAME(CUDA_SUCCESS, "no error"),
    ERROR_NAME(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR_NAME(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR_NAME(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR_NAME(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR_NAME(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR_NAME(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR_NAME(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR_NAME(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR_NAME(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR_NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ERROR_NAME(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR_NAME(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR_NAME(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR_NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR_NAME(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR_NAME(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
};

// The one device. A kernel that is running keeps the process from using `memory` and `thread`.
struct Device {
  bool is_initialized = false, is_current = false;
  CUctx_st context;
  std::vector<uint32_t> memory = std::vector<uint32_t>(kFirstAddress / 4);
  std::map<CUdeviceptr, size_t> allocations;
  std::thread thread;
  std::atomic<bool> is_running = false;
  std::atomic<CUresult> error = CUDA_SUCCESS;  // of a kernel; stays
};

// Never destroyed: a kernel may still run when the process ends.
Device& TheDevice() {
  static Device* device = new Device;
  return *device;
}

int DeviceCount() {
  const char* count = std::getenv("QGPU_STANDIN_DEVICES");
  return count == nullptr ? 1 : std::atoi(count);
}

// What every entry point begins with: injected errors, then what a kernel left behind.
CUresult Enter(const char* function, bool needs_context = true) {
  const char* fail = std::getenv("QGPU_STANDIN_FAIL");
  const std::string prefix = std::string(function) + "=";
  if (fail != nullptr && std::strncmp(fail, prefix.c_str(), prefix.size()) == 0) {
    const std::string what = fail + prefix.size();
    if (what == "abort") std::abort();
    while (what == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
    return static_cast<CUresult>(std::atoi(what.c_str()));
  }
  Device& device = TheDevice();
  if (!device.is_initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!needs_context) return CUDA_SUCCESS;
  return device.is_current ? device.error.load() : CUDA_ERROR_INVALID_CONTEXT;
}
#define ENTER(...)                                                                                    \
  if (const CUresult entered = Enter(__func__ __VA_OPT__(, ) __VA_ARGS__); entered != CUDA_SUCCESS) { \
    return entered;                                                                                   \
  }

void Join() {
  if (TheDevice().thread.joinable()) TheDevice().thread.join();
}

bool IsAllocated(CUdeviceptr address, size_t bytes) {
  for (const auto& [begin, size] : TheDevice().allocations) {
    if (address >= begin && address - begin <= size && bytes <= size - (address - begin)) return true;
  }
  return false;
}

absl::Status Compile(const std::string& text, CUmod_st& module) {
  QGPU_ASSIGN_OR_RETURN(const ptx::Module parsed, ptx::ParsePtx("ptxas application ptx input", text));
  for (const ptx::Function& function : parsed.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    QGPU_ASSIGN_OR_RETURN(native::Translation translation, native::Translate(parsed, function));
    CUfunc_st& kernel = module.kernels[function.name];
    kernel.footprint = translation.footprint;
    kernel.parameters = translation.parameters;
    QGPU_ASSIGN_OR_RETURN(native::JitCode code, native::JitCode::Create(&translation));
    kernel.code = std::make_unique<native::JitCode>(std::move(code));
  }
  return absl::OkStatus();
}

void WriteLog(const std::string& message, unsigned options, const CUjit_option* names, void** values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (buffer == nullptr || size == 0) return;
  const size_t length = std::min(size - 1, message.size());
  std::memcpy(buffer, message.data(), length);
  buffer[length] = '\0';
}

CUresult ErrorOf(native::RunResult result) {
  switch (result.end) {
    case NativeEnd::kDone:
      return CUDA_SUCCESS;
    case NativeEnd::kOutOfRange:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case NativeEnd::kMisaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  const CUresult entered = Enter("cuInit", false);
  if (entered != CUDA_SUCCESS && entered != CUDA_ERROR_NOT_INITIALIZED) return entered;
  if (DeviceCount() == 0) return CUDA_ERROR_NO_DEVICE;
  TheDevice().is_initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  for (const ErrorName& known : kErrors) {
    if (known.error == error) return *name = known.name, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  for (const ErrorName& known : kErrors) {
    if (known.error == error) return *text = known.text, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  ENTER(false);
  *count = DeviceCount();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER(false);
  *device = ordinal;
  return ordinal >= 0 && ordinal < DeviceCount() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  ENTER(false);
  std::strncpy(name, kName, static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  ENTER(false);
  static const std::map<CUdevice_attribute, int> values = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1'000'000},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2'000'000},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 5},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, kMaxShared},
  };
  const auto found = values.find(attribute);
  if (found == values.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ENTER(false);
  *context = &TheDevice().context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  ENTER(false);
  TheDevice().is_current = false;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER(false);
  TheDevice().is_current = context == &TheDevice().context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  ENTER();
  Join();
  return TheDevice().error;
}

CUresult cuStreamQuery(CUstream) {
  ENTER();
  return TheDevice().is_running ? CUDA_ERROR_NOT_READY : TheDevice().error.load();
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned options, CUjit_option* names, void** values) {
  ENTER();
  auto made = std::make_unique<CUmod_st>();
  if (const absl::Status status = Compile(static_cast<const char*>(image), *made); !status.ok()) {
    WriteLog(std::string(status.message()), options, names, values);
    return CUDA_ERROR_INVALID_PTX;
  }
  *module = made.release();
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  ENTER();
  Join();
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  ENTER();
  const auto found = module->kernels.find(name);
  if (found == module->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  *function = &found->second;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  ENTER();
  if (attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  *value = static_cast<int>(function->footprint.shared_bytes);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER();
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<uint32_t>(value) + function->footprint.shared_bytes > kMaxShared) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->max_dynamic_shared = static_cast<uint32_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  ENTER();
  std::vector<uint32_t>& memory = TheDevice().memory;
  const size_t begin = (4 * memory.size() + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes == 0 || bytes > kMemoryBytes - std::min(begin, kMemoryBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  memory.resize((begin + bytes + 3) / 4, 0xcdcdcdcd);
  TheDevice().allocations[begin] = bytes;
  *address = begin;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER();
  return TheDevice().allocations.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  ENTER();
  if (!IsAllocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Join();
  std::memcpy(reinterpret_cast<char*>(TheDevice().memory.data()) + to, from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  ENTER();
  if (!IsAllocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Join();
  std::memcpy(to, reinterpret_cast<const char*>(TheDevice().memory.data()) + from, bytes);
  return TheDevice().error;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream, void** parameters,
                        void** extra) {
  ENTER();
  native::LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, {}};
  if (shape.grid.Count() == 0 || shape.block.Count() == 0 || shape.block.Count() > native::kMaxThreads ||
      shared_bytes > function->max_dynamic_shared || extra != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < function->parameters.size(); ++i) {
    const native::ParameterSlot& slot = function->parameters[i];
    shape.parameters.resize(std::max<size_t>(shape.parameters.size(), slot.offset + slot.bytes));
    std::memcpy(shape.parameters.data() + slot.offset, parameters[i], slot.bytes);
  }
  Join();
  Device& device = TheDevice();
  device.is_running = true;
  device.thread = std::thread([&device, function, shape = std::move(shape)] {
    NativeCpuLimits limits;  // none, as on hardware
    limits.memory_words = static_cast<uint32_t>(device.memory.size());
    limits.backward_branches = std::numeric_limits<int64_t>::max();
    limits.wall_ms = 24LL * 3600 * 1000;
    device.error =
        ErrorOf(native::RunGrid(function->code->entry(), function->footprint, shape, limits, &device.memory));
    device.is_running = false;
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
