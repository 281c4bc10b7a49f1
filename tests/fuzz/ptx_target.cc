#include "tests/fuzz/ptx_target.h"

#include <cstdio>
#include <cstdlib>

#include "lowering/compile.h"
#include "lowering/ptx/ptx.h"
#include "machine/interpreter/interpreter.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

constexpr int64_t kTokens = 2000;
constexpr uint64_t kMaxArgumentBytesHere = 4096;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FuzzPtx: %s\n", what);
  std::abort();
}

// A launch of `kernel` with a value for every parameter; 64-bit ones are buffers, in turns with numbers.
LaunchSpec LaunchOf(const ptx::Function& kernel) {
  LaunchSpec spec;
  spec.kernel = kernel.name;
  spec.block.x = 6;
  spec.grid.x = 2;
  spec.token_budget = kTokens;
  int wide = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    const uint64_t bytes = parameter.Bytes();
    if (bytes == 8 && wide++ % 4 != 3) {
      spec.arguments.push_back(KernelArgument::RawBuffer("", Bytes(32, static_cast<uint8_t>(wide))));
    } else {
      spec.arguments.push_back(KernelArgument::RawValue("", Bytes(std::min(bytes, kMaxArgumentBytesHere), 3)));
    }
  }
  return spec;
}

const ptx::Function* FirstKernel(const ptx::Module& module) {
  for (const ptx::Function& function : module.functions) {
    if (function.is_entry && !function.is_declaration) return &function;
  }
  return nullptr;
}

}  // namespace

PtxFuzzOutcome FuzzPtx(const std::string& text, bool with_native) {
  PtxFuzzOutcome outcome;
  const absl::StatusOr<ptx::Module> module = ptx::ParsePtx("fuzz.ptx", text);
  if (!module.ok()) {
    Require(!module.status().message().empty(), "an error without a message");
    return outcome;
  }
  outcome.parsed = true;
  const ptx::Function* kernel = FirstKernel(*module);
  if (kernel == nullptr) return outcome;
  const LaunchSpec spec = LaunchOf(*kernel);
  const absl::StatusOr<LoweredKernel> lowered = CompilePtxKernel("fuzz.ptx", text, spec);
  if (lowered.ok()) {
    outcome.lowered = true;
    Require(ValidateLaunch(lowered->launch, MachineGeometry{}).ok(), "a lowered launch that is not valid");
    Interpret(lowered->launch, kTokens);
  }
  if (!with_native) return outcome;
  absl::StatusOr<NativeCpuKernel> native = NativeCpuKernel::Compile("fuzz.ptx", text, kernel->name);
  outcome.translated = native.ok();
  if (!native.ok()) return outcome;
  NativeCpuLimits limits;
  limits.backward_branches = kTokens;
  limits.wall_ms = 2000;
  native->Run(spec, {}, limits).IgnoreError();
  return outcome;
}

}  // namespace qgpu
