// The kernels as they are, through NVIDIA's nvcc: they compile unchanged, and its PTX, run on this CPU, computes what
// plain C++ does. Skipped where nvcc is not installed.
#include <optional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/installed_tools.h"
#include "kernels/suite.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

// The kernels in one translation unit, each in a namespace of its own, because nvcc takes a second to start.
absl::StatusOr<std::string> CompileTogether(const std::vector<KernelCase>& cases) {
  const TemporaryFolder folder;
  std::set<std::string> files;
  std::string all;
  for (const KernelCase& kernel_case : cases) {
    const KernelSource& source = kernel_case.spec.source;
    if (!files.insert(source.name).second) continue;
    QGPU_RETURN_IF_ERROR(WriteFileAtomically(folder.File(source.name), source.text));
    all += fmt::format("namespace of_{} {{\n#include \"{}\"\n}}\n", kernel_case.kernel, source.name);
  }
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(folder.File("all.cu"), all));
  const std::string failure =
      Failure(fmt::format("nvcc -arch=sm_75 -ptx '{}' -o '{}'", folder.File("all.cu"), folder.File("all.ptx")), folder);
  if (!failure.empty()) return absl::InternalError(failure);
  return ReadFile(folder.File("all.ptx"));
}

// Mangled name of the kernel in its namespace, as far as the parameters.
std::string EntryOf(const std::string& ptx, const std::string& kernel) {
  const std::string scope = "of_" + kernel;
  const std::string start = fmt::format("_ZN{}{}{}{}E", scope.size(), scope, kernel.size(), kernel);
  const size_t begin = ptx.find(".entry " + start);
  if (begin == std::string::npos) return "";
  return ptx.substr(begin + 7, ptx.find('(', begin) - begin - 7);
}

TEST(KernelsNvccTest, ItsPtxComputesWhatPlainCppDoes) {
  if (!Installed("nvcc")) GTEST_SKIP() << "nvcc is not installed";
  const absl::StatusOr<std::vector<KernelCase>> cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  const absl::StatusOr<std::string> ptx = CompileTogether(*cases);
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  std::string compiled_kernel;
  std::optional<NativeCpuKernel> native;
  for (const KernelCase& kernel_case : *cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;
    SCOPED_TRACE(kernel_case.Id());
    if (kernel_case.kernel != compiled_kernel) {
      compiled_kernel = kernel_case.kernel;
      const std::string entry = EntryOf(*ptx, compiled_kernel);
      ASSERT_NE(entry, "");
      absl::StatusOr<NativeCpuKernel> result = NativeCpuKernel::Compile("all.ptx", *ptx, entry);
      ASSERT_TRUE(result.ok()) << result.status();
      native = std::move(result).value();
    }
    LaunchSpec by_position = kernel_case.spec;  // nvcc does not keep the parameters' names
    for (KernelArgument& argument : by_position.arguments) argument.name.clear();
    const absl::StatusOr<NativeRun> run = native->Run(by_position);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->end, NativeEnd::kDone) << run->message;
    const absl::StatusOr<MemoryImage> expected = ExpectedMemory(kernel_case);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(run->memory, *expected);
  }
}

}  // namespace
}  // namespace qgpu
