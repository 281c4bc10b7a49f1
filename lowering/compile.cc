#include "lowering/compile.h"

#include <algorithm>
#include <set>

#include "lowering/ptx/ptx.h"
#include "lowering/ptx_to_blocks/lower.h"

namespace qgpu {
namespace {

absl::Status CheckShape(const LaunchSpec& spec, const MachineGeometry& geometry) {
  const uint64_t threads = spec.block.Count();
  if (threads == 0 || threads > static_cast<uint64_t>(geometry.max_threads())) {
    return absl::InvalidArgumentError(
        fmt::format("a thread block of {} x {} x {} = {} threads; the machine holds 1 to {}", spec.block.x,
                    spec.block.y, spec.block.z, threads, geometry.max_threads()));
  }
  const Dim3& grid = spec.grid;
  if (grid.Count() == 0 || grid.x > kMaxGridX || grid.y > kMaxGridY || grid.z > kMaxGridZ) {
    return absl::InvalidArgumentError(
        fmt::format("a grid of {} x {} x {} thread blocks; the machine counts to {} x {} x {}", grid.x, grid.y, grid.z,
                    kMaxGridX, kMaxGridY, kMaxGridZ));
  }
  return absl::OkStatus();
}

absl::StatusOr<const ptx::Function*> ChooseEntry(const ptx::Module& module, const std::string& name) {
  std::string known;
  const ptx::Function* only = nullptr;
  int count = 0;
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    if (!name.empty() && function.name == name) return &function;
    known += (count++ == 0 ? "" : ", ") + function.name;
    only = &function;
  }
  if (count == 0) return absl::InvalidArgumentError(fmt::format("{}: has no kernel (.entry)", module.name));
  if (!name.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no kernel {}; its kernels are: {}", module.name, name, known));
  }
  if (count > 1) {
    return absl::InvalidArgumentError(fmt::format("{}: which kernel? It has: {}", module.name, known));
  }
  return only;
}

// The content of every parameter, in order.
absl::StatusOr<std::vector<Bytes>> ParameterContents(const ptx::Function& kernel,
                                                     const std::vector<KernelArgument>& arguments, const Arena& arena) {
  std::vector<Bytes> contents;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const uint64_t size = kernel.parameters[i].Bytes();
    if (arguments[i].kind == KernelArgument::Kind::kScalar) {
      QGPU_ASSIGN_OR_RETURN(Bytes bytes, ScalarBytes(arguments[i], size, !kernel.parameters[i].dimensions.empty()));
      contents.push_back(std::move(bytes));
    } else if (size == 8) {
      contents.push_back(FromWords({arena.byte_address[i], 0}, 8));
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "argument {}: the kernel takes a number of {} bytes there, not a buffer", arguments[i].name, size));
    }
  }
  return contents;
}

// A refusal of the whole kernel has no line: it names the file and the kernel.
absl::Status AboutKernel(const absl::Status& status, const ptx::Module& module, const ptx::Function& kernel) {
  const std::string message(status.message());
  if (status.ok() || message.starts_with(module.name + ":")) return status;
  return absl::Status(status.code(), fmt::format("{}: kernel {}: {}", module.name, kernel.name, message));
}

}  // namespace

absl::StatusOr<LoweredKernel> CompilePtxKernel(const std::string& ptx_name, const std::string& ptx,
                                               const LaunchSpec& spec,
                                               const std::vector<std::string>& parameter_names) {
  const MachineGeometry geometry;
  QGPU_RETURN_IF_ERROR(CheckShape(spec, geometry));
  QGPU_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(ptx_name, ptx));
  QGPU_ASSIGN_OR_RETURN(const ptx::Function* kernel, ChooseEntry(module, spec.kernel));

  LoweredKernel out;
  out.kernel = kernel->name;
  out.ptx = ptx;
  out.parameter_names = parameter_names;
  if (out.parameter_names.size() != kernel->parameters.size()) {
    out.parameter_names.clear();
    for (const ptx::Variable& parameter : kernel->parameters) out.parameter_names.push_back(parameter.name);
  }
  QGPU_ASSIGN_OR_RETURN(out.arguments, OrderArguments(spec.arguments, out.parameter_names));
  Arena arena = LayOutArena(out.arguments, ptx::WidestBufferAccess(module));
  if (arena.words.size() > static_cast<size_t>(geometry.memory_words)) {
    const std::string needs = fmt::format("needs {} words, the memory holds {} (word 0 is never given out)",
                                          arena.words.size(), geometry.memory_words);
    return AboutKernel(absl::InvalidArgumentError(needs), module, *kernel);
  }

  lower::LoweringInput input;
  input.module = &module;
  input.kernel = kernel;
  input.grid = spec.grid;
  input.block = spec.block;
  input.arena_words = static_cast<uint32_t>(arena.words.size());
  input.dynamic_shared_bytes = spec.dynamic_shared_bytes;
  input.token_budget = spec.token_budget;
  input.geometry = geometry;
  QGPU_ASSIGN_OR_RETURN(input.parameters, ParameterContents(*kernel, out.arguments, arena));
  for (const KernelArgument& argument : out.arguments) {
    input.is_buffer.push_back(argument.kind == KernelArgument::Kind::kBuffer);
  }
  absl::StatusOr<lower::LoweredBlocks> blocks = lower::LowerToBlocks(input);
  if (!blocks.ok()) return AboutKernel(blocks.status(), module, *kernel);
  lower::LoweredBlocks lowered = *std::move(blocks);

  out.launch.program = std::move(lowered.program);
  out.launch.grid = {spec.grid.x, spec.grid.y, spec.grid.z};
  out.launch.block = {spec.block.x, spec.block.y, spec.block.z};
  out.launch.parameters = lower::ParameterValues(input, lowered.words);
  out.arena_words = arena.words.size();
  out.byte_address = std::move(arena.byte_address);
  out.launch.memory = std::move(arena.words);
  lowered.layout.WriteInitialContent(&out.launch.memory);
  QGPU_RETURN_IF_ERROR(ValidateLaunch(out.launch, geometry));
  return out;
}

absl::StatusOr<LoweredKernel> CompileKernel(const LaunchSpec& spec, PtxCache& cache) {
  QGPU_RETURN_IF_ERROR(CheckShape(spec, MachineGeometry{}));
  QGPU_ASSIGN_OR_RETURN(const PtxSource source, cache.Get(spec));
  LaunchSpec of_entry = spec;
  of_entry.kernel = source.entry;
  QGPU_ASSIGN_OR_RETURN(LoweredKernel out,
                        CompilePtxKernel(source.ptx_name, source.ptx, of_entry, source.parameter_names));
  if (!source.kernel.empty()) out.kernel = source.kernel;
  return out;
}

absl::StatusOr<LoweredKernel> CompileKernel(const LaunchSpec& spec) {
  PtxCache cache(1);
  return CompileKernel(spec, cache);
}

std::string Disassemble(const Program& program) {
  std::string text;
  std::set<std::string> files;
  for (const auto& origins : program.origins) {
    for (const SlotOrigin& origin : origins) {
      if (origin.cuda_line != 0) files.insert(origin.cuda_file);
    }
  }
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const MachineBlock& block = program.blocks[b];
    text += fmt::format("block {}\n", b);
    for (int s = 0; s <= kSlots; ++s) {
      const bool is_control = s == kSlots;
      std::string line = is_control ? "  -> " + FormatControl(block.control)
                                    : fmt::format("  {}: {}", s, FormatInstruction(block.slots[s]));
      const SlotOrigin origin = b < program.origins.size() ? program.origins[b][s] : SlotOrigin{};
      if (origin.ptx_line != 0) {
        const std::string file = files.size() < 2 || origin.cuda_file.empty() ? "" : " of " + origin.cuda_file;
        const std::string cuda = origin.cuda_line == 0 ? "" : fmt::format(", line {}{}", origin.cuda_line, file);
        line = fmt::format("{:<44} ; ptx {}{}: {}", line, origin.ptx_line, cuda, origin.text);
      }
      if (!is_control && block.slots[s].op == Op::kNop) continue;
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace qgpu
