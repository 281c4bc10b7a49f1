#include "oracle/native_cpu/native_cpu.h"

#include <algorithm>

#include "lowering/ptx/ptx.h"
#include "oracle/arguments/arguments.h"
#include "oracle/native_cpu/jit.h"
#include "oracle/native_cpu/runtime.h"
#include "oracle/native_cpu/translator.h"

namespace qgpu {
namespace {

constexpr uint64_t kMaxLocalBytesPerBlock = 64 << 20;

std::string Triple(const std::array<uint32_t, 3>& position) {
  return fmt::format("({}, {}, {})", position[0], position[1], position[2]);
}

std::string SpaceText(native::MemorySpace space) {
  using native::MemorySpace;
  switch (space) {
    case MemorySpace::kShared:
      return "shared";
    case MemorySpace::kLocal:
      return "local";
    case MemorySpace::kConst:
      return "constant";
    case MemorySpace::kParam:
      return "parameter";
    case MemorySpace::kGlobal:
      return "global";
    case MemorySpace::kGeneric:
      break;
  }
  return "generic";
}

std::vector<native::PtxParameter> Declared(const std::vector<native::ParameterSlot>& slots) {
  std::vector<native::PtxParameter> parameters;
  for (const native::ParameterSlot& slot : slots) parameters.push_back({slot.name, slot.bytes, !slot.is_word});
  return parameters;
}

// The front of the parameter space.
absl::StatusOr<std::vector<uint8_t>> ParameterSpace(const std::vector<KernelArgument>& arguments, const Arena& arena,
                                                    const std::vector<native::ParameterSlot>& slots) {
  const std::vector<native::PtxParameter> parameters = Declared(slots);
  std::vector<uint8_t> space;
  for (size_t i = 0; i < slots.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                          native::ParameterBytes(i, arguments[i], arena.byte_address[i], parameters[i]));
    space.resize(std::max<size_t>(space.size(), slots[i].offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), space.begin() + slots[i].offset);
  }
  return space;
}

// CUDA's limits of a launch.
absl::Status CheckShape(const LaunchSpec& spec, const ptx::Function& kernel, const native::Footprint& footprint) {
  const Dim3 &block = spec.block, &grid = spec.grid;
  const auto refuse = [](const std::string& what) { return absl::InvalidArgumentError("launch shape: " + what); };
  if (block.Count() == 0 || grid.Count() == 0) return refuse("every axis must be at least 1");
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.Count() > native::kMaxThreads) {
    return refuse(fmt::format("a thread block has at most {} threads (1024 x 1024 x 64)", native::kMaxThreads));
  }
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    return refuse("a grid has at most 2147483647 x 65535 x 65535 thread blocks");
  }
  const uint64_t shared = uint64_t{footprint.shared_bytes} + spec.dynamic_shared_bytes;
  if (shared > native::kMaxSharedBytes) {
    return refuse(fmt::format("{} bytes of shared memory, the limit is {}", shared, native::kMaxSharedBytes));
  }
  if (footprint.local_bytes * block.Count() > kMaxLocalBytesPerBlock) {
    return refuse(fmt::format("{} bytes of local memory for each of {} threads exceed {} in all", footprint.local_bytes,
                              block.Count(), kMaxLocalBytesPerBlock));
  }
  for (const ptx::Directive& directive : kernel.directives) {
    const std::vector<uint64_t>& v = directive.values;
    const uint64_t x = v.empty() ? 1 : v[0], y = v.size() < 2 ? 1 : v[1], z = v.size() < 3 ? 1 : v[2];
    if (directive.name == "maxntid" && !v.empty() && block.Count() > x * y * z) {
      return refuse(fmt::format("{} threads, the kernel allows {}", block.Count(), x * y * z));
    }
    if (directive.name == "reqntid" && !v.empty() && !(block.x == x && block.y == y && block.z == z)) {
      return refuse(fmt::format("the kernel requires thread blocks of {} x {} x {}", x, y, z));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string NativeEndName(NativeEnd end) {
  switch (end) {
    case NativeEnd::kDone:
      return "done";
    case NativeEnd::kOutOfRange:
      return "address out of range";
    case NativeEnd::kMisaligned:
      return "misaligned access";
    case NativeEnd::kBarrierDivergence:
      return "barrier divergence";
    case NativeEnd::kDeadlock:
      return "deadlock";
    case NativeEnd::kTrap:
      return "trap instruction";
    case NativeEnd::kTimeout:
      return "limit exceeded";
  }
  return "unknown";
}

struct NativeCpuKernel::State {
  ptx::Module module;
  const ptx::Function* kernel;
  native::Footprint footprint;
  std::vector<native::ParameterSlot> parameters;
  std::vector<ptx::SourceLocation> places;
  native::JitCode code;

  std::string Describe(const native::RunResult& result, const NativeCpuLimits& limits) const;
};

NativeCpuKernel::NativeCpuKernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
NativeCpuKernel::NativeCpuKernel(NativeCpuKernel&&) noexcept = default;
NativeCpuKernel& NativeCpuKernel::operator=(NativeCpuKernel&&) noexcept = default;
NativeCpuKernel::~NativeCpuKernel() = default;

absl::StatusOr<NativeCpuKernel> NativeCpuKernel::Compile(const std::string& ptx_name, const std::string& ptx,
                                                         const std::string& kernel) {
  QGPU_ASSIGN_OR_RETURN(ptx::Module module, ptx::ParsePtx(ptx_name, ptx));
  QGPU_ASSIGN_OR_RETURN(const ptx::Function* entry, ptx::FindKernel(module, kernel));
  QGPU_ASSIGN_OR_RETURN(native::Translation translation, native::Translate(module, *entry));
  QGPU_ASSIGN_OR_RETURN(native::JitCode code, native::JitCode::Create(&translation));
  auto state =
      std::make_unique<State>(State{std::move(module), nullptr, std::move(translation.footprint),
                                    std::move(translation.parameters), std::move(translation.places), std::move(code)});
  QGPU_ASSIGN_OR_RETURN(state->kernel, ptx::FindKernel(state->module, kernel));
  return NativeCpuKernel(std::move(state));
}

std::string NativeCpuKernel::State::Describe(const native::RunResult& result, const NativeCpuLimits& limits) const {
  const auto place = [&](int64_t instruction) {
    return instruction < 0 ? kernel->name : Place(module, places[static_cast<size_t>(instruction)]);
  };
  std::string text = fmt::format("{}: {}", place(result.instruction), NativeEndName(result.end));
  switch (result.end) {
    case NativeEnd::kOutOfRange:
    case NativeEnd::kMisaligned:
      text += fmt::format(": {} bytes at {} address 0x{:x}", result.bytes, SpaceText(result.space), result.address);
      break;
    case NativeEnd::kTimeout:
      text += fmt::format(": {}, limits are {} backward branches and {} ms", result.detail, limits.backward_branches,
                          limits.wall_ms);
      break;
    default:
      break;
  }
  const bool has_detail = result.detail[0] != '\0' && result.end != NativeEnd::kTimeout;
  if (has_detail) text += fmt::format(": {}", result.detail);
  text += fmt::format(", in thread {} of block {}", Triple(result.thread), Triple(result.block));
  if (result.other_instruction >= 0) {
    text += fmt::format("; thread {} waits at {}", Triple(result.other_thread), place(result.other_instruction));
  }
  return text;
}

absl::StatusOr<NativeRun> NativeCpuKernel::Run(const LaunchSpec& spec, const std::vector<std::string>& parameter_names,
                                               const NativeCpuLimits& limits) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelArgument> arguments,
                        native::InParameterOrder(spec.arguments, Declared(state_->parameters), parameter_names));
  QGPU_RETURN_IF_ERROR(CheckShape(spec, *state_->kernel, state_->footprint));
  Arena arena = LayOutArena(arguments, ptx::WidestBufferAccess(state_->module));
  if (uint64_t{4} * arena.words.size() > native::kGlobalVariableBase) {
    return absl::InvalidArgumentError(
        fmt::format("the buffers take {} words, the limit is {}", arena.words.size(), native::kGlobalVariableBase / 4));
  }
  native::LaunchShape shape = {spec.grid, spec.block, spec.dynamic_shared_bytes, {}};
  QGPU_ASSIGN_OR_RETURN(shape.parameters, ParameterSpace(arguments, arena, state_->parameters));

  native::RunResult result;
  try {
    result = native::RunGrid(state_->code.entry(), state_->footprint, shape, limits, &arena.words);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("native-cpu: no memory for the threads of a block");
  }
  NativeRun run;
  run.end = result.end;
  run.memory = std::move(arena.words);
  run.buffer_addresses = std::move(arena.byte_address);
  run.backward_branches = result.backward_branches;
  if (run.end == NativeEnd::kDone) return run;
  run.message = state_->Describe(result, limits);
  run.block = result.block;
  run.thread = result.thread;
  run.address = result.address;
  if (result.instruction >= 0) {
    const ptx::SourceLocation& place = state_->places[static_cast<size_t>(result.instruction)];
    run.ptx_line = place.ptx_line;
    run.cuda_line = place.cuda_line;
  }
  return run;
}

absl::StatusOr<NativeRun> RunNativeCpu(const std::string& ptx, const LaunchSpec& spec,
                                       const std::vector<std::string>& parameter_names, const NativeCpuLimits& limits) {
  const std::string name = spec.source.name.empty()                       ? "kernel.ptx"
                           : spec.source.language == SourceLanguage::kPtx ? spec.source.name
                                                                          : spec.source.name + ".ptx";
  QGPU_ASSIGN_OR_RETURN(NativeCpuKernel kernel, NativeCpuKernel::Compile(name, ptx, spec.kernel));
  return kernel.Run(spec, parameter_names, limits);
}

}  // namespace qgpu
