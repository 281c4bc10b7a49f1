// Every case of every suite on this CPU, from the PTX that clang makes of the kernels, against plain C++: every word of
// memory.
#include <optional>

#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

struct Native {
  NativeCpuKernel kernel;
  std::vector<std::string> parameter_names;
};

absl::StatusOr<Native> CompileNative(const LaunchSpec& spec) {
  QGPU_ASSIGN_OR_RETURN(const CompiledPtx compiled, CompileCudaToPtx(spec.source));
  QGPU_ASSIGN_OR_RETURN(const CompiledKernel* kernel, FindKernel(compiled, spec.kernel));
  QGPU_ASSIGN_OR_RETURN(NativeCpuKernel native,
                        NativeCpuKernel::Compile(spec.source.name + ".ptx", compiled.ptx, kernel->ptx_name));
  return Native{std::move(native), kernel->ParameterNames()};
}

TEST(KernelsNativeTest, EveryCaseComputesWhatPlainCppDoes) {
  const absl::StatusOr<std::vector<KernelCase>> cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::string compiled_kernel;
  std::optional<Native> native;
  int kernels = 0, compared = 0;
  for (const KernelCase& kernel_case : *cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;
    SCOPED_TRACE(kernel_case.Id());
    if (kernel_case.kernel != compiled_kernel) {
      absl::StatusOr<Native> result = CompileNative(kernel_case.spec);
      ASSERT_TRUE(result.ok()) << result.status();
      native = std::move(result).value();
      compiled_kernel = kernel_case.kernel;
      ++kernels;
    }
    const absl::StatusOr<NativeRun> run = native->kernel.Run(kernel_case.spec, native->parameter_names);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->end, NativeEnd::kDone) << run->message;
    const absl::StatusOr<MemoryImage> expected = ExpectedMemory(kernel_case);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(run->memory, *expected);
    ++compared;
  }
  EXPECT_EQ(kernels, 59);
  EXPECT_GE(compared, 59 * 4);
}

}  // namespace
}  // namespace qgpu
