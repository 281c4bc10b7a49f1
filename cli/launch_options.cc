#include "cli/launch_options.h"

#include <utility>

#include "cli/arguments.h"
#include "common/file.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"
#include "lowering/ptx/ptx.h"

namespace qgpu {
namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

absl::StatusOr<KernelSource> ReadSource(const std::string& file) {
  KernelSource source;
  if (EndsWith(file, ".ptx")) {
    source.language = SourceLanguage::kPtx;
  } else if (!EndsWith(file, ".cu")) {
    return absl::InvalidArgumentError(fmt::format("{}: the name of a kernel's file ends in .cu or .ptx", file));
  }
  QGPU_ASSIGN_OR_RETURN(source.text, ReadFile(file, kMaxSourceBytes));
  source.name = file.substr(file.rfind('/') + 1);
  return source;
}

// A kernel as PTX, with what is known of its parameters.
struct CompiledEntry {
  std::string ptx, entry;
  std::string kernel;  // as the user knows it
  std::vector<TypedParameter> parameters;
};

absl::StatusOr<CompiledEntry> CompileEntry(const KernelSource& source, const std::string& kernel) {
  QGPU_ASSIGN_OR_RETURN(CompiledPtx compiled, CompileCudaToPtx(source));
  QGPU_ASSIGN_OR_RETURN(const CompiledKernel* found, FindKernel(compiled, kernel));
  CompiledEntry entry;
  entry.entry = found->ptx_name;
  entry.kernel = found->name;
  for (const CompiledParameter& parameter : found->parameters) {
    const auto kind = parameter.is_pointer ? TypedParameter::Kind::kPointer : TypedParameter::Kind::kValue;
    entry.parameters.push_back({parameter.name, kind, static_cast<int>(parameter.bytes)});
  }
  entry.ptx = std::move(compiled.ptx);
  return entry;
}

absl::StatusOr<CompiledEntry> ParseEntry(const KernelSource& source, const std::string& kernel) {
  QGPU_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(source.name, source.text));
  const ptx::Function* found = nullptr;
  std::string entries;
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    entries += (entries.empty() ? "" : ", ") + function.name;
    if (!kernel.empty() ? function.name == kernel : found == nullptr) found = &function;
  }
  if (entries.empty()) return absl::InvalidArgumentError(fmt::format("{}: no .entry in this file", source.name));
  if (found == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: no kernel \"{}\"; there are: {}", source.name, kernel, entries));
  }
  if (kernel.empty() && found->name != entries) {
    return absl::InvalidArgumentError(
        fmt::format("{}: several kernels, choose with --kernel: {}", source.name, entries));
  }
  CompiledEntry entry;
  entry.ptx = source.text;
  entry.entry = entry.kernel = found->name;
  for (const ptx::Variable& parameter : found->parameters) {
    const int bytes = static_cast<int>(parameter.Bytes());
    // PTX does not say which 64-bit parameters are pointers.
    const auto kind = bytes == 8 ? TypedParameter::Kind::kUnknown : TypedParameter::Kind::kValue;
    entry.parameters.push_back({parameter.name, kind, bytes});
  }
  return entry;
}

}  // namespace

void AddLaunchOptions(CLI::App& command, LaunchOptions& options) {
  command.add_option("file", options.file, "Kernel: a .cu or .ptx file")->required();
  command
      .add_option("--arg", options.arguments,
                  "NAME=1,-2,0x10 or NAME=zeros:N (an output) or NAME=inout:1,2; once for each parameter, by position "
                  "without NAME=")
      ->allow_extra_args(false);
  command.add_option("--kernel", options.kernel, "Kernel of a file with several");
  command.add_option("--grid", options.grid, "Thread blocks, X or X,Y or X,Y,Z (default 1)");
  command.add_option("--block", options.block, "Threads of a block (default: the longest buffer's words, at most 32)");
  command.add_option("--budget", options.token_budget, "Tokens the machine may write")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

absl::StatusOr<PreparedLaunch> PrepareLaunch(const LaunchOptions& options) {
  std::vector<TypedArgument> typed;
  for (const std::string& text : options.arguments) {
    QGPU_ASSIGN_OR_RETURN(TypedArgument argument, ParseTypedArgument(text));
    typed.push_back(std::move(argument));
  }
  PreparedLaunch prepared;
  LaunchSpec& spec = prepared.spec;
  QGPU_ASSIGN_OR_RETURN(spec.source, ReadSource(options.file));
  const bool is_cuda = spec.source.language == SourceLanguage::kCuda;
  QGPU_ASSIGN_OR_RETURN(const CompiledEntry entry,
                        is_cuda ? CompileEntry(spec.source, options.kernel) : ParseEntry(spec.source, options.kernel));
  QGPU_ASSIGN_OR_RETURN(spec.arguments, BindArguments(typed, entry.parameters));
  spec.kernel = entry.entry;
  spec.token_budget = options.token_budget;
  spec.block = DefaultBlock(spec.arguments);
  if (!options.grid.empty()) {
    QGPU_ASSIGN_OR_RETURN(spec.grid, ParseTypedDim3("--grid", options.grid));
  }
  if (!options.block.empty()) {
    QGPU_ASSIGN_OR_RETURN(spec.block, ParseTypedDim3("--block", options.block));
  }
  std::vector<std::string> names;
  for (const TypedParameter& parameter : entry.parameters) names.push_back(parameter.name);
  QGPU_ASSIGN_OR_RETURN(prepared.lowered, CompilePtxKernel(is_cuda ? spec.source.name + ".ptx" : spec.source.name,
                                                           entry.ptx, spec, names));
  prepared.lowered.kernel = entry.kernel;
  return prepared;
}

}  // namespace qgpu
