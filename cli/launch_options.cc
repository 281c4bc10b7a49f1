#include "cli/launch_options.h"

#include <set>
#include <utility>

#include "cli/arguments.h"
#include "common/file.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"
#include "lowering/ptx/ptx.h"

namespace qgpu {
namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;
constexpr size_t kAssumed = 8;  // words of a buffer, and numbers

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
    const auto kind = parameter.is_pointer         ? TypedParameter::Kind::kPointer
                      : parameter.type == "struct" ? TypedParameter::Kind::kStruct
                                                   : TypedParameter::Kind::kValue;
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
    const auto kind = !parameter.dimensions.empty() ? TypedParameter::Kind::kStruct
                      : bytes == 8                  ? TypedParameter::Kind::kUnknown
                                                    : TypedParameter::Kind::kValue;
    entry.parameters.push_back({parameter.name, kind, bytes});
  }
  return entry;
}

// What was typed on top of the launch description.
absl::Status Override(const LaunchOptions& options, LaunchSpec& spec) {
  if (!options.kernel.empty()) spec.kernel = options.kernel;
  if (!options.grid.empty()) {
    QGPU_ASSIGN_OR_RETURN(spec.grid, ParseTypedDim3("--grid", options.grid));
  }
  if (!options.block.empty()) {
    QGPU_ASSIGN_OR_RETURN(spec.block, ParseTypedDim3("--block", options.block));
  }
  if (options.dynamic_shared_bytes.has_value()) spec.dynamic_shared_bytes = *options.dynamic_shared_bytes;
  if (options.token_budget.has_value()) spec.token_budget = *options.token_budget;
  return absl::OkStatus();
}

// Arguments for the parameters that have none, as they could be typed.
std::vector<TypedArgument> Assume(const std::vector<TypedArgument>& typed,
                                  const std::vector<TypedParameter>& parameters, std::vector<std::string>& assumed) {
  std::set<std::string> given;
  for (size_t i = 0; i < typed.size(); ++i) {
    if (!typed[i].name.empty()) given.insert(typed[i].name);
    if (typed[i].name.empty() && i < parameters.size()) given.insert(parameters[i].name);
  }
  std::vector<TypedArgument> more;
  for (const TypedParameter& parameter : parameters) {
    if (given.contains(parameter.name)) continue;
    TypedArgument argument;
    argument.name = parameter.name;
    if (parameter.kind == TypedParameter::Kind::kStruct) {
      argument.is_raw = true;
      argument.bytes.resize(static_cast<size_t>(parameter.bytes));
      argument.text = fmt::format("{}=bytes:{}", parameter.name, ToHex(argument.bytes));
      assumed.push_back("--arg " + argument.text);
      more.push_back(std::move(argument));
      continue;
    }
    argument.must_be_buffer = parameter.kind != TypedParameter::Kind::kValue;
    argument.text = fmt::format("{}={}{}", parameter.name, argument.must_be_buffer ? "zeros:" : "", kAssumed);
    if (argument.must_be_buffer) {
      argument.values.resize(kAssumed);
    } else {
      argument.values.push_back({kAssumed, false});
    }
    assumed.push_back("--arg " + argument.text);
    more.push_back(std::move(argument));
  }
  return more;
}

// The typed arguments in parameter order; the block's default depends on them.
absl::Status BindTyped(const LaunchOptions& options, const std::vector<TypedParameter>& parameters,
                       MissingArguments missing, PreparedLaunch& prepared) {
  std::vector<TypedArgument> typed;
  for (const std::string& text : options.arguments) {
    QGPU_ASSIGN_OR_RETURN(TypedArgument argument, ParseTypedArgument(text));
    typed.push_back(std::move(argument));
  }
  if (missing == MissingArguments::kAreAssumed) {
    std::vector<TypedArgument> more = Assume(typed, parameters, prepared.assumed);
    typed.insert(typed.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  QGPU_ASSIGN_OR_RETURN(prepared.spec.arguments, BindArguments(typed, parameters));
  prepared.spec.block = DefaultBlock(prepared.spec.arguments);
  return absl::OkStatus();
}

}  // namespace

void AddLaunchOptions(CLI::App& command, LaunchOptions& options) {
  command.add_option("file", options.file, "Kernel: a .cu or .ptx file")->required();
  CLI::Option* arguments =
      command
          .add_option(
              "--arg", options.arguments,
              "NAME=1,-2,0x10 or NAME=zeros:N (an output) or NAME=inout:1,2 or NAME=bytes:0aff (a struct); once for "
              "each parameter, by position without NAME=")
          ->allow_extra_args(false);
  command
      .add_option("--launch", options.launch,
                  "Arguments and shape from a launch description, a JSON file (docs/formats/launch.md), instead of "
                  "--arg; the options below take the place of what it says")
      ->excludes(arguments);
  command.add_option("--kernel", options.kernel, "Kernel of a file with several");
  command.add_option("--grid", options.grid, "Thread blocks, X or X,Y or X,Y,Z (default 1)");
  command.add_option("--block", options.block, "Threads of a block (default: the longest buffer's words, at most 32)");
  command.add_option("--dynamic-shared", options.dynamic_shared_bytes, "Bytes of dynamic shared memory (default 0)")
      ->check(CLI::Range(0, 1 << 20));
  command.add_option("--budget", options.token_budget, "Tokens the machine may write (default 20000)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
}

absl::StatusOr<PreparedLaunch> PrepareLaunch(const LaunchOptions& options, MissingArguments missing) {
  PreparedLaunch prepared;
  LaunchSpec& spec = prepared.spec;
  const bool is_described = !options.launch.empty();
  if (is_described) {
    QGPU_ASSIGN_OR_RETURN(spec, ReadLaunchSpec(options.launch));
  }
  QGPU_ASSIGN_OR_RETURN(spec.source, ReadSource(options.file));
  const bool is_cuda = spec.source.language == SourceLanguage::kCuda;
  const std::string kernel = options.kernel.empty() ? spec.kernel : options.kernel;
  QGPU_ASSIGN_OR_RETURN(CompiledEntry entry,
                        is_cuda ? CompileEntry(spec.source, kernel) : ParseEntry(spec.source, kernel));
  for (const TypedParameter& parameter : entry.parameters) prepared.parameter_names.push_back(parameter.name);
  if (is_described) {
    QGPU_ASSIGN_OR_RETURN(spec.arguments, OrderArguments(spec.arguments, prepared.parameter_names));
  } else {
    QGPU_RETURN_IF_ERROR(BindTyped(options, entry.parameters, missing, prepared));
  }
  QGPU_RETURN_IF_ERROR(Override(options, spec));
  spec.kernel = std::move(entry.entry);
  prepared.kernel = std::move(entry.kernel);
  prepared.ptx_name = is_cuda ? spec.source.name + ".ptx" : spec.source.name;
  prepared.ptx = std::move(entry.ptx);
  QGPU_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(prepared.ptx_name, prepared.ptx));
  prepared.arena = LayOutArena(spec.arguments, ptx::WidestBufferAccess(module));
  return prepared;
}

absl::StatusOr<LoweredKernel> LowerLaunch(const PreparedLaunch& launch) {
  QGPU_ASSIGN_OR_RETURN(LoweredKernel lowered,
                        CompilePtxKernel(launch.ptx_name, launch.ptx, launch.spec, launch.parameter_names));
  lowered.kernel = launch.kernel;
  return lowered;
}

}  // namespace qgpu
