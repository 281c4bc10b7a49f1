#include "lowering/cuda_to_ptx/cuda_to_ptx.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "embedded/qgpu_device_header.h"
#include "lowering/cuda_to_ptx/diagnostics.h"
#include "lowering/cuda_to_ptx/kernel_table.h"
#include "lowering/cuda_to_ptx/sandbox.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kDeviceHeader[] = "qgpu_cuda.h";
constexpr char kIrFile[] = "kernel.ll";
constexpr char kPtxFile[] = "kernel.ptx";
constexpr char kFileTable[] = "files.json";

// Every header a kernel may include; all of them are the device header.
constexpr char kHeaderNames[] =
    "cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h device_atomic_functions.h "
    "sm_20_intrinsics.h sm_30_intrinsics.h sm_32_intrinsics.h sm_35_intrinsics.h vector_types.h vector_functions.h "
    "builtin_types.h driver_types.h host_defines.h "
    "assert.h inttypes.h limits.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h "
    "cassert cinttypes climits cstddef cstdint cstdio cstdlib cstring";

// The compiler's own interface (-cc1) is used rather than its driver: one process without children, and no option that
// depends on the host. FindClang sees to the version. All options are single words.
constexpr char kTarget[] = "-cc1 -triple nvptx64-nvidia-cuda -target-cpu sm_75 -target-feature +ptx64 -Os";

// -Os and no vectorizers: the machine's ROM holds 128 instructions, so nothing is unrolled unless it gets smaller by it
// or the source says so (#pragma unroll). Endless loops stay: C++ lets a compiler assume that there are none, but then
// a kernel that hangs on a GPU would end here. As with nvcc, memory may be accessed as any type (-relaxed-aliasing),
// and a variable that only some threads have set may be passed on, to a shuffle for instance
// (-no-enable-noundef-analysis). Value names are kept, because parameters' names are taken from the IR.
constexpr char kFrontendOptions[] =
    "-x cuda -fcuda-is-device -aux-triple x86_64-unknown-linux-gnu -std=gnu++17 -fwrapv -fno-finite-loops "
    "-relaxed-aliasing -no-enable-noundef-analysis "
    "-fgnuc-version=4.2.1 "
    "-nostdsysteminc -nobuiltininc -nostdinc++ -ivfsoverlay files.json -internal-isystem include "
    "-include qgpu_cuda.h -debug-info-kind=line-directives-only -dwarf-version=2 -fdebug-compilation-dir=. "
    "-fno-autolink -fconstexpr-steps=200000 -ferror-limit 10 -fmessage-length=0 -emit-llvm -o kernel.ll";

constexpr char kBackendOptions[] = "-x ir -disable-llvm-passes -fno-dwarf-directory-asm -S -o kernel.ptx kernel.ll";

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

std::vector<std::string> FrontendArguments(const std::string& file) {
  return Words(fmt::format("{} {} -main-file-name {} {}", kTarget, kFrontendOptions, file, file));
}

std::vector<std::string> BackendArguments() { return Words(fmt::format("{} {}", kTarget, kBackendOptions)); }

// A fresh folder that only this user can enter, removed with everything in it.
class ScratchFolder {
 public:
  static absl::StatusOr<ScratchFolder> Make() {
    std::error_code error;
    const fs::path base = fs::temp_directory_path(error);
    std::string path = ((error ? fs::path("/tmp") : base) / "qgpu-compile-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(fmt::format("no scratch folder {}: {}", path, std::strerror(errno)));
    }
    return ScratchFolder(fs::canonical(path).string());
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

  absl::Status Write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) return absl::UnavailableError(fmt::format("cannot write {}/{}", path_, name));
    return absl::OkStatus();
  }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The name the compiler is given: the user's without folders, of harmless characters, and unlike the other files'.
std::string FileNameFor(const std::string& display_name) {
  std::string name = display_name.substr(display_name.rfind('/') + 1);
  for (char& c : name) {
    const bool harmless = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    if (!harmless) c = '_';
  }
  if (name.empty() || name.front() == '-' || name.front() == '.') name = "kernel" + name;
  if (name.size() > 64) name = name.substr(name.size() - 64);
  return name.ends_with(".cu") ? name : name + ".cu";
}

// Clang's view of the file system: the source, and the device header under each of its names. Nothing else can be
// included or embedded, whatever the sandbox allows.
std::string FileTable(const ScratchFolder& scratch, const std::string& file) {
  nlohmann::json roots = nlohmann::json::array();
  const auto add = [&](const std::string& name, const std::string& content) {
    roots.push_back({{"type", "file"},
                     {"name", scratch.path() + "/" + name},
                     {"external-contents", scratch.path() + "/" + content}});
  };
  add(file, file);
  add(kDeviceHeader, kDeviceHeader);
  for (const std::string& header : Words(kHeaderNames)) add("include/" + header, kDeviceHeader);
  return nlohmann::json{{"version", 0},
                        {"case-sensitive", "true"},
                        {"redirecting-with", "redirect-only"},
                        {"use-external-names", "false"},
                        {"roots", roots}}
      .dump();
}

// Lines such as `.file 1 "./dot.cu"`, without the compilation folder.
void DropFolderOfFiles(std::string& ptx) {
  const std::string_view directive = "\n\t.file\t";
  for (size_t at = ptx.find(directive); at != std::string::npos; at = ptx.find(directive, at + 1)) {
    const size_t folder = ptx.find("\"./", at);
    if (folder != std::string::npos && folder < ptx.find('\n', at + 1)) ptx.erase(folder + 1, 2);
  }
}

// Folders that the compiler itself is loaded from.
std::vector<std::string> ToolchainFolders(const std::string& clang) {
  return {fs::path(clang).parent_path().parent_path().string(),
          "/lib",
          "/lib64",
          "/usr/lib",
          "/usr/lib64",
          "/etc/ld.so.cache"};
}

struct Stage {
  const char* name;  // "frontend", "backend"
  std::vector<std::string> arguments;
};

class Compilation {
 public:
  Compilation(const SandboxLayers& layers, const KernelSource& source, const CompileLimits& limits, std::string clang,
              ScratchFolder scratch)
      : layers_(layers),
        source_(source),
        limits_(limits),
        clang_(std::move(clang)),
        scratch_(std::move(scratch)),
        file_(FileNameFor(source.name)),
        names_{scratch_.path(), file_, source.name.empty() ? file_ : source.name},
        deadline_(Clock::now() + std::chrono::milliseconds(limits.wall_ms)) {}

  absl::StatusOr<CompiledPtx> Run() {
    QGPU_RETURN_IF_ERROR(scratch_.Write(file_, source_.text));
    QGPU_RETURN_IF_ERROR(scratch_.Write(kDeviceHeader, device_header::Files().front().text));
    QGPU_RETURN_IF_ERROR(scratch_.Write(kFileTable, FileTable(scratch_, file_)));
    CompiledPtx compiled;
    QGPU_ASSIGN_OR_RETURN(compiled.warnings, RunStage({"frontend", FrontendArguments(file_)}));
    QGPU_ASSIGN_OR_RETURN(const std::string ir, ReadOutput(kIrFile));
    QGPU_ASSIGN_OR_RETURN(std::string backend_warnings, RunStage({"backend", BackendArguments()}));
    if (!backend_warnings.empty()) compiled.warnings += (compiled.warnings.empty() ? "" : "\n") + backend_warnings;
    QGPU_ASSIGN_OR_RETURN(compiled.ptx, ReadOutput(kPtxFile));
    DropFolderOfFiles(compiled.ptx);
    QGPU_ASSIGN_OR_RETURN(compiled.kernels, ReadKernelTable(ir, compiled.ptx));
    for (CompiledKernel& kernel : compiled.kernels) {
      if (kernel.file == file_) kernel.file = names_.display_name;
    }
    return compiled;
  }

 private:
  // The stage's warnings.
  absl::StatusOr<std::string> RunStage(const Stage& stage) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    SandboxCommand command;
    command.program = clang_;
    command.arguments = stage.arguments;
    command.readable = ToolchainFolders(clang_);
    command.scratch = scratch_.path();
    command.wall_ms = static_cast<int>(std::max<int64_t>(left, 1));
    command.cpu_seconds = limits_.cpu_seconds;
    command.address_space_bytes = limits_.address_space_bytes;
    command.file_bytes = limits_.output_bytes;
    QGPU_ASSIGN_OR_RETURN(const SandboxOutcome outcome, RunSandboxedWith(layers_, command));
    const std::string messages = CleanDiagnostics(outcome.messages, names_);
    using End = SandboxOutcome::End;
    if (outcome.end == End::kExited && outcome.code == 0) return messages;
    return Failure(stage, outcome, messages);
  }

  absl::Status Failure(const Stage& stage, const SandboxOutcome& outcome, const std::string& messages) const {
    using End = SandboxOutcome::End;
    const std::string what = fmt::format("{}: the compiler's {}", names_.display_name, stage.name);
    const auto too_much = [&](const std::string& limit, const char* remedy) {
      return absl::InvalidArgumentError(fmt::format("{} needs more than {}; {}", what, limit, remedy));
    };
    const std::string shorter =
        "make the kernel smaller: fewer template instances, less constexpr evaluation, less unrolling";
    if (outcome.end == End::kWallTime) return too_much(fmt::format("{} ms", limits_.wall_ms), shorter.c_str());
    if (outcome.end == End::kCpuTime) {
      return too_much(fmt::format("{} s of processor time", limits_.cpu_seconds), shorter.c_str());
    }
    // A write that the limit refuses reaches us as a signal, or as the compiler's own message.
    if (outcome.end == End::kFileSize || outcome.messages.find("File too large") != std::string::npos) {
      return too_much(fmt::format("{} bytes of output", limits_.output_bytes),
                      "make the kernel smaller: less unrolling, smaller arrays with initial values");
    }
    for (const char* sign : {"out of memory", "bad_alloc", "Cannot allocate memory", "Allocation failed"}) {
      if (outcome.messages.find(sign) == std::string::npos || outcome.code == 1) continue;
      return too_much(fmt::format("{} MiB of address space", limits_.address_space_bytes >> 20), shorter.c_str());
    }
    if (outcome.end == End::kExited && outcome.code == 1) {
      return absl::InvalidArgumentError(fmt::format("{} does not compile:\n{}", names_.display_name, messages));
    }
    std::string text = outcome.end == End::kSignal ? fmt::format("{} crashed ({})", what, strsignal(outcome.code))
                                                   : fmt::format("{} gave up (exit status {})", what, outcome.code);
    const std::string place = CrashPlace(outcome.messages, names_);
    if (!place.empty()) text += " at " + place;
    text += "; it cannot compile this source, so write it differently";
    if (!messages.empty()) text += "\n" + messages;
    return absl::InvalidArgumentError(text);
  }

  absl::StatusOr<std::string> ReadOutput(const std::string& name) const {
    std::ifstream file(scratch_.path() + "/" + name, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) return absl::UnavailableError(fmt::format("{}: the compiler left no {}", names_.display_name, name));
    return bytes;
  }

  const SandboxLayers& layers_;
  const KernelSource& source_;
  const CompileLimits& limits_;
  const std::string clang_;
  const ScratchFolder scratch_;
  const std::string file_;
  const DiagnosticNames names_;
  const Clock::time_point deadline_;
};

}  // namespace

std::vector<std::string> CompiledKernel::ParameterNames() const {
  std::vector<std::string> names;
  for (const CompiledParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

absl::StatusOr<CompiledPtx> CompileCudaToPtx(const KernelSource& source, const CompileLimits& limits) {
  return CompileCudaToPtxWith(ProbeSandbox(), source, limits);
}

absl::StatusOr<CompiledPtx> CompileCudaToPtxWith(const SandboxLayers& layers, const KernelSource& source,
                                                 const CompileLimits& limits) {
  if (source.language != SourceLanguage::kCuda) {
    return absl::InvalidArgumentError(fmt::format("{} is PTX already, not CUDA", source.name));
  }
  if (source.text.size() > limits.source_bytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} bytes; at most {} are compiled", source.name, source.text.size(), limits.source_bytes));
  }
  QGPU_ASSIGN_OR_RETURN(std::string clang, FindClang());
  QGPU_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Make());
  return Compilation(layers, source, limits, std::move(clang), std::move(scratch)).Run();
}

absl::StatusOr<const CompiledKernel*> FindKernel(const CompiledPtx& compiled, const std::string& name) {
  std::vector<const CompiledKernel*> found;
  std::string known;
  for (const CompiledKernel& kernel : compiled.kernels) {
    if (kernel.ptx_name == name) return &kernel;
    if (name.empty() || kernel.name == name) found.push_back(&kernel);
    known += fmt::format("{}{}{}", known.empty() ? "" : ", ", kernel.name,
                         kernel.name == kernel.ptx_name ? "" : fmt::format(" ({})", kernel.ptx_name));
  }
  if (found.size() == 1) return found.front();
  if (compiled.kernels.empty()) {
    return absl::InvalidArgumentError("the file has no __global__ function with a body (templates need an instance)");
  }
  if (name.empty())
    return absl::InvalidArgumentError("the file has several kernels, give --kernel with one of: " + known);
  return absl::InvalidArgumentError(
      fmt::format("{} kernel is called {}; there are: {}", found.empty() ? "no" : "more than one", name, known));
}

absl::StatusOr<std::string> FindClang() {
  std::vector<std::string> candidates;
  if (const char* given = std::getenv("QGPU_CLANG"); given != nullptr && *given != 0) {
    candidates = {given};
  } else {
    candidates = {"/usr/lib/llvm-19/bin/clang"};
    const char* path = std::getenv("PATH");
    for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
      const size_t colon = rest.find(':');
      candidates.push_back(std::string(rest.substr(0, colon)) + "/clang-19");
      rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
  }
  for (const std::string& candidate : candidates) {
    std::error_code error;
    const fs::path resolved = fs::canonical(candidate, error);
    // The folder of the compiler's own headers carries its version.
    if (!error && fs::is_regular_file(resolved, error) &&
        fs::exists(resolved.parent_path().parent_path() / "lib/clang/19", error)) {
      return resolved.string();
    }
  }
  return absl::FailedPreconditionError(
      candidates.size() == 1 ? fmt::format("no clang 19 at {} (QGPU_CLANG)", candidates.front())
                             : "clang 19 is not installed: apt-get install clang-19 (or set QGPU_CLANG to its path)");
}

}  // namespace qgpu
