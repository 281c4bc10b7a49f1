#include "oracle/native_cuda/native_cuda.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "lowering/ptx/ptx.h"
#include "oracle/arguments/arguments.h"

namespace qgpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kGuardWords = 1024;          // on either side
constexpr uint32_t kGuardWord = 0xa5a5a5a5u;  // as unlikely as any other to be what a kernel writes
constexpr size_t kMaxArenaWords = size_t{1} << 28;
constexpr CUdeviceptr kAlignment = 256;  // what cuMemAlloc promises; offsets keep their alignment up to it
static_assert(kGuardWords * sizeof(uint32_t) % kAlignment == 0);
constexpr unsigned kJitLogBytes = 16 << 10;

int64_t NsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

class Launcher {
 public:
  Launcher(const CudaDriver& driver, const LaunchSpec& spec, NativeCudaRun& run)
      : driver_(driver), spec_(spec), run_(run) {}

  absl::Status Start();  // the context
  absl::Status LoadKernel(const std::string& ptx_name, const std::string& ptx, const ptx::Function& kernel);
  absl::Status CheckShape() const;
  absl::Status CopyIn(const Arena& arena, uint32_t memory_words);
  absl::Status Launch(const std::vector<KernelArgument>& arguments, const Arena& arena,
                      const std::vector<native::PtxParameter>& parameters, int64_t wall_ms);
  absl::Status CopyOut();
  void Finish();

 private:
  absl::Status Unavailable(const char* call, CUresult error) const {
    return absl::UnavailableError(fmt::format("native-cuda: {}: {}", call, driver_.ErrorText(error)));
  }
  // A call whose failure says something about the machine, not about the kernel.
  absl::Status Check(const char* call, CUresult error) const {
    return error == CUDA_SUCCESS ? absl::OkStatus() : Unavailable(call, error);
  }
  int Attribute(CUdevice_attribute attribute, int otherwise) const;
  absl::Status WaitForEnd(int64_t wall_ms);
  absl::Status EndWith(CUresult error);
  void FindChangedGuard(const std::vector<uint32_t>& words);

  const CudaDriver& driver_;
  const LaunchSpec& spec_;
  NativeCudaRun& run_;
  CUdevice device_ = 0;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr allocation_ = 0;  // guard, memory, guard
  size_t arena_words_ = 0, memory_words_ = 0;
};

absl::Status Launcher::Start() {
  CUcontext context = nullptr;
  QGPU_RETURN_IF_ERROR(Check("cuDeviceGet", driver_.cuDeviceGet(&device_, 0)));
  const CUresult error = driver_.cuDevicePrimaryCtxRetain(&context, device_);
  if (error == CUDA_ERROR_DEVICE_UNAVAILABLE) {
    return absl::UnavailableError(fmt::format(
        "native-cuda: {}; another process has it to itself, set its compute mode to default (nvidia-smi -c DEFAULT)",
        driver_.ErrorText(error)));
  }
  QGPU_RETURN_IF_ERROR(Check("cuDevicePrimaryCtxRetain", error));
  return Check("cuCtxSetCurrent", driver_.cuCtxSetCurrent(context));
}

absl::Status Launcher::LoadKernel(const std::string& ptx_name, const std::string& ptx, const ptx::Function& kernel) {
  const auto start = Clock::now();
  std::vector<char> log(kJitLogBytes + 1);
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t{kJitLogBytes})};
  CUresult error = driver_.cuModuleLoadDataEx(&module_, ptx.c_str(), 2, names, values);
  std::string what = fmt::format("{}: {}", ptx_name, driver_.ErrorText(error));
  if (log[0] != '\0') what += fmt::format(": {}", log.data());
  while (!what.empty() && (what.back() == '\n' || what.back() == ' ')) what.pop_back();
  switch (error) {
    case CUDA_SUCCESS:
      break;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:  // an extern function that nothing defines
    case CUDA_ERROR_NOT_FOUND:
      return absl::InvalidArgumentError(what);
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return absl::UnimplementedError(fmt::format("{}; PTX {} for {}, the device is {}", what, run_.ptx_version,
                                                  run_.target, Describe(run_.device)));
    default:
      return absl::UnavailableError("native-cuda: " + what);
  }
  error = driver_.cuModuleGetFunction(&function_, module_, kernel.name.c_str());
  if (error == CUDA_ERROR_NOT_FOUND) {
    return absl::InvalidArgumentError(fmt::format("{}: the driver finds no kernel {}", ptx_name, kernel.name));
  }
  run_.compile_ns = NsSince(start);
  return Check("cuModuleGetFunction", error);
}

int Launcher::Attribute(CUdevice_attribute attribute, int otherwise) const {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS ? value : otherwise;
}

// The driver says no more than "invalid argument", so its limits are looked up.
absl::Status Launcher::CheckShape() const {
  const auto refuse = [](const std::string& what) { return absl::InvalidArgumentError("launch shape: " + what); };
  const Dim3 &block = spec_.block, &grid = spec_.grid;
  if (block.Count() == 0 || grid.Count() == 0) return refuse("every axis must be at least 1");
  const auto largest = [&](CUdevice_attribute attribute, int otherwise) {
    return static_cast<uint32_t>(Attribute(attribute, otherwise));
  };
  const uint32_t threads = largest(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  const Dim3 most = {largest(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024),
                     largest(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024),
                     largest(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64)};
  if (block.x > most.x || block.y > most.y || block.z > most.z || block.Count() > threads) {
    return refuse(fmt::format("a thread block has at most {} threads ({} x {} x {})", threads, most.x, most.y, most.z));
  }
  const Dim3 blocks = {largest(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff),
                       largest(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535),
                       largest(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535)};
  if (grid.x > blocks.x || grid.y > blocks.y || grid.z > blocks.z) {
    return refuse(fmt::format("a grid has at most {} x {} x {} thread blocks", blocks.x, blocks.y, blocks.z));
  }
  int static_shared = 0;
  QGPU_RETURN_IF_ERROR(
      Check("cuFuncGetAttribute",
            driver_.cuFuncGetAttribute(&static_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_)));
  const uint64_t shared = static_cast<uint64_t>(static_shared) + spec_.dynamic_shared_bytes;
  const uint64_t most_shared = largest(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 48 << 10);
  if (shared > most_shared) {
    return refuse(fmt::format("{} bytes of shared memory, the limit is {}", shared, most_shared));
  }
  return absl::OkStatus();
}

absl::Status Launcher::CopyIn(const Arena& arena, uint32_t memory_words) {
  arena_words_ = arena.words.size();
  memory_words_ = std::max<size_t>(arena_words_, memory_words);
  std::vector<uint32_t> words(kGuardWords, kGuardWord);
  words.insert(words.end(), arena.words.begin(), arena.words.end());
  words.resize(kGuardWords + memory_words_);
  words.resize(words.size() + kGuardWords, kGuardWord);
  const size_t bytes = words.size() * sizeof(uint32_t);
  QGPU_RETURN_IF_ERROR(Check("cuMemAlloc", driver_.cuMemAlloc_v2(&allocation_, bytes)));
  if (allocation_ % kAlignment != 0) {
    return absl::UnavailableError(fmt::format(
        "native-cuda: memory at 0x{:x} is not aligned to {} bytes, as the driver promises", allocation_, kAlignment));
  }
  return Check("cuMemcpyHtoD", driver_.cuMemcpyHtoD_v2(allocation_, words.data(), bytes));
}

absl::Status Launcher::Launch(const std::vector<KernelArgument>& arguments, const Arena& arena,
                              const std::vector<native::PtxParameter>& parameters, int64_t wall_ms) {
  const CUdeviceptr base = allocation_ + kGuardWords * sizeof(uint32_t);
  std::vector<std::vector<uint8_t>> bytes(parameters.size());
  std::vector<void*> pointers;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (arguments[i].kind == KernelArgument::Kind::kBuffer && parameters[i].bytes != sizeof(CUdeviceptr)) {
      return absl::InvalidArgumentError(fmt::format("argument {} is a buffer, but the parameter {} has {} bytes", i,
                                                    parameters[i].name, parameters[i].bytes));
    }
    QGPU_ASSIGN_OR_RETURN(bytes[i],
                          native::ParameterBytes(i, arguments[i], base + arena.byte_address[i], parameters[i]));
    pointers.push_back(bytes[i].data());
  }
  if (spec_.dynamic_shared_bytes > 0) {
    QGPU_RETURN_IF_ERROR(Check("cuFuncSetAttribute",
                               driver_.cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                          static_cast<int>(spec_.dynamic_shared_bytes))));
  }
  const auto start = Clock::now();
  const CUresult error = driver_.cuLaunchKernel(function_, spec_.grid.x, spec_.grid.y, spec_.grid.z, spec_.block.x,
                                                spec_.block.y, spec_.block.z, spec_.dynamic_shared_bytes, nullptr,
                                                pointers.empty() ? nullptr : pointers.data(), nullptr);
  if (error == CUDA_ERROR_INVALID_VALUE || error == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) {
    return absl::InvalidArgumentError(
        fmt::format("the driver refuses the launch: {}; it may be a limit that the kernel declares (.maxntid, "
                    ".reqntid), or its registers and shared memory are too much for so many threads",
                    driver_.ErrorText(error)));
  }
  const absl::Status status = error == CUDA_SUCCESS ? WaitForEnd(wall_ms) : EndWith(error);
  run_.run_ns = NsSince(start);
  return status;
}

absl::Status Launcher::WaitForEnd(int64_t wall_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(wall_ms);
  std::chrono::microseconds pause(20);
  CUresult state;
  while ((state = driver_.cuStreamQuery(nullptr)) == CUDA_ERROR_NOT_READY) {
    if (Clock::now() > deadline) {
      run_.end = CudaEnd::kTimeout;
      run_.message = fmt::format("the kernel still runs after {} ms", wall_ms);
      return absl::OkStatus();
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(2000));
  }
  if (state == CUDA_SUCCESS) state = driver_.cuCtxSynchronize();
  return EndWith(state);
}

// What the driver says of a kernel that was started.
absl::Status Launcher::EndWith(CUresult error) {
  switch (error) {
    case CUDA_SUCCESS:
      return absl::OkStatus();
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      run_.end = CudaEnd::kOutOfRange;
      break;
    case CUDA_ERROR_MISALIGNED_ADDRESS:
      run_.end = CudaEnd::kMisaligned;
      break;
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:  // what newer devices make of `trap`
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      run_.end = CudaEnd::kTrap;
      break;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
      run_.end = CudaEnd::kTimeout;
      break;
    default:
      return Unavailable("cuLaunchKernel", error);
  }
  run_.message = driver_.ErrorText(error);
  return absl::OkStatus();
}

absl::Status Launcher::CopyOut() {
  std::vector<uint32_t> words(memory_words_ + 2 * kGuardWords);
  QGPU_RETURN_IF_ERROR(
      Check("cuMemcpyDtoH", driver_.cuMemcpyDtoH_v2(words.data(), allocation_, words.size() * sizeof(uint32_t))));
  FindChangedGuard(words);
  if (run_.end != CudaEnd::kDone) return absl::OkStatus();
  const auto begin = words.begin() + kGuardWords;
  run_.memory.assign(begin, begin + static_cast<std::ptrdiff_t>(arena_words_));
  return absl::OkStatus();
}

void Launcher::FindChangedGuard(const std::vector<uint32_t>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const bool in_memory = i >= kGuardWords && i < kGuardWords + memory_words_;
    if (in_memory || words[i] == kGuardWord) continue;
    run_.end = CudaEnd::kOutOfRange;
    run_.message = fmt::format("the kernel wrote {} at byte {} of a memory of {} bytes", words[i],
                               4 * (static_cast<int64_t>(i) - static_cast<int64_t>(kGuardWords)), 4 * memory_words_);
    return;
  }
}

void Launcher::Finish() {
  driver_.cuMemFree_v2(allocation_);
  driver_.cuModuleUnload(module_);
  driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

std::vector<native::PtxParameter> Parameters(const ptx::Function& kernel) {
  std::vector<native::PtxParameter> parameters;
  for (const ptx::Variable& parameter : kernel.parameters) {
    parameters.push_back({parameter.name, static_cast<uint32_t>(parameter.Bytes()), !parameter.dimensions.empty()});
  }
  return parameters;
}

}  // namespace

absl::StatusOr<NativeCudaRun> RunNativeCuda(const std::string& ptx_name, const std::string& ptx,
                                            const std::string& entry, const LaunchSpec& spec,
                                            const std::vector<std::string>& parameter_names,
                                            const NativeCudaOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load(options.library));
  NativeCudaRun run;
  QGPU_ASSIGN_OR_RETURN(run.device, driver.FirstDevice());
  // The driver would stop reading there, the parser does not.
  if (ptx.find('\0') != std::string::npos) return absl::InvalidArgumentError(ptx_name + ": a NUL byte in the PTX");
  QGPU_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(ptx_name, ptx));
  QGPU_ASSIGN_OR_RETURN(const ptx::Function* kernel, ptx::FindKernel(module, entry));
  run.ptx_version = module.version;
  run.target = module.target;
  if (module.address_size != 64) {
    return absl::UnimplementedError(fmt::format("{}: addresses of {} bits; drivers take 64 only (.address_size 64)",
                                                ptx_name, module.address_size));
  }
  const std::vector<native::PtxParameter> parameters = Parameters(*kernel);
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelArgument> arguments,
                        native::InParameterOrder(spec.arguments, parameters, parameter_names));
  const Arena arena = LayOutArena(arguments, ptx::WidestBufferAccess(module));
  if (arena.words.size() > kMaxArenaWords) {
    return absl::InvalidArgumentError(
        fmt::format("the buffers take {} words, the limit is {}", arena.words.size(), kMaxArenaWords));
  }
  Launcher launcher(driver, spec, run);
  QGPU_RETURN_IF_ERROR(launcher.Start());
  QGPU_RETURN_IF_ERROR(launcher.LoadKernel(ptx_name, ptx, *kernel));
  QGPU_RETURN_IF_ERROR(launcher.CheckShape());
  QGPU_RETURN_IF_ERROR(launcher.CopyIn(arena, options.memory_words));
  QGPU_RETURN_IF_ERROR(launcher.Launch(arguments, arena, parameters, options.wall_ms));
  if (run.end != CudaEnd::kDone) return run;
  QGPU_RETURN_IF_ERROR(launcher.CopyOut());
  launcher.Finish();
  return run;
}

}  // namespace qgpu
