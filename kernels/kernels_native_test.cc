// The twelve kernels on this CPU, from the PTX that clang makes of them, against plain C++: every word of memory.
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

TEST(KernelsNativeTest, EveryCaseComputesWhatPlainCppDoes) {
  const absl::StatusOr<KernelSuite> suite = LoadSuite("kernels");
  ASSERT_TRUE(suite.ok()) << suite.status();
  int compared = 0;
  std::string compiled_kernel;
  CompiledPtx compiled;
  for (const KernelCase& kernel_case : suite->cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;
    if (kernel_case.kernel != compiled_kernel) {
      absl::StatusOr<CompiledPtx> result = CompileCudaToPtx(kernel_case.spec.source);
      ASSERT_TRUE(result.ok()) << result.status();
      compiled = std::move(result).value();
      compiled_kernel = kernel_case.kernel;
    }
    const CompiledKernel& kernel = **FindKernel(compiled, kernel_case.spec.kernel);
    absl::StatusOr<NativeCpuKernel> native =
        NativeCpuKernel::Compile(kernel_case.spec.source.name + ".ptx", compiled.ptx, kernel.ptx_name);
    ASSERT_TRUE(native.ok()) << native.status();
    const absl::StatusOr<NativeRun> run = native->Run(kernel_case.spec, kernel.ParameterNames());
    ASSERT_TRUE(run.ok()) << kernel_case.Id() << ": " << run.status();
    EXPECT_EQ(run->end, NativeEnd::kDone) << kernel_case.Id() << ": " << run->message;
    const absl::StatusOr<MemoryImage> expected = ExpectedMemory(kernel_case);
    ASSERT_TRUE(expected.ok()) << kernel_case.Id() << ": " << expected.status();
    EXPECT_EQ(run->memory, *expected) << kernel_case.Id();
    ++compared;
  }
  EXPECT_GE(compared, 12 * 3);
}

}  // namespace
}  // namespace qgpu
