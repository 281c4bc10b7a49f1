// The twelve kernels: their cases reach the corners they must, their CUDA compiles here, assembles with NVIDIA's ptxas
// for a T4 and compiles unchanged with nvcc (where those are installed), and what they compute is known.
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr size_t kArenaWords = 126;  // the machine's memory
constexpr uint32_t kIntMin = 0x80000000u, kIntMax = 0x7fffffffu;

const KernelSuite& Suite() {
  static const KernelSuite suite = LoadSuite("kernels").value();
  return suite;
}

const KernelCase& Case(const std::string& id) {
  for (const KernelCase& kernel_case : Suite().cases) {
    if (kernel_case.Id() == id) return kernel_case;
  }
  ADD_FAILURE() << "no case " << id;
  return Suite().cases.front();
}

// Each kernel's PTX, compiled once.
const CompiledPtx& Compiled(const std::string& kernel) {
  static std::map<std::string, CompiledPtx> compiled;
  if (!compiled.contains(kernel)) {
    for (const KernelCase& kernel_case : Suite().cases) {
      if (kernel_case.kernel != kernel) continue;
      absl::StatusOr<CompiledPtx> result = CompileCudaToPtx(kernel_case.spec.source);
      EXPECT_TRUE(result.ok()) << result.status();
      compiled[kernel] = std::move(result).value();
      break;
    }
  }
  return compiled[kernel];
}

bool Installed(const std::string& tool) {
  return std::system(("command -v " + tool + " >/dev/null 2>&1").c_str()) == 0;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (fs::temp_directory_path() / "qgpu-kernels-test-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What `command` printed, when it failed; "" when it ended with 0.
std::string Failure(const std::string& command, const TemporaryFolder& folder) {
  const std::string log = folder.File("log");
  if (std::system(fmt::format("{} >'{}' 2>&1", command, log).c_str()) == 0) return "";
  return ReadFile(log).value_or("no output") + " ";
}

std::vector<uint32_t> ExpectedBuffer(const std::string& id, const std::string& buffer) {
  const absl::StatusOr<MemoryImage> memory = ExpectedMemory(Case(id));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return BufferOf(Case(id), *memory, buffer).value();
}

TEST(KernelsTest, TwelveKernelsWithCornersInTheirCases) {
  EXPECT_THAT(Suite().KernelNames(),
              UnorderedElementsAre("vector_add", "saxpy", "relu", "clamp", "abs_diff", "polynomial", "dot", "fibonacci",
                                   "gcd", "collatz_steps", "popcount", "gather"));
  for (const std::string& kernel : Suite().KernelNames()) {
    int cases = 0;
    bool empty = false, extreme_min = false, several_blocks = false, ragged = false;
    for (const KernelCase& kernel_case : Suite().cases) {
      if (kernel_case.kernel != kernel) continue;
      ++cases;
      several_blocks |= kernel_case.spec.grid.Count() > 1;
      for (const KernelArgument& argument : kernel_case.spec.arguments) {
        const bool is_buffer = argument.kind == KernelArgument::Kind::kBuffer;
        empty |= is_buffer && argument.words.empty();
        ragged |= is_buffer && argument.words.size() % 4 != 0;
        for (const uint32_t word : argument.words) extreme_min |= word == kIntMin;
        extreme_min |= !is_buffer && static_cast<uint32_t>(argument.scalar) == kIntMin;
      }
    }
    EXPECT_GE(cases, 3) << kernel;
    EXPECT_TRUE(empty) << kernel << " has no case of length zero";
    EXPECT_TRUE(extreme_min) << kernel << " never meets INT_MIN";
    EXPECT_TRUE(several_blocks) << kernel << " never has a grid";
    EXPECT_TRUE(ragged) << kernel << " has only lengths that are multiples of 4";
  }
}

TEST(KernelsTest, EveryCaseFitsTheMachine) {
  for (const KernelCase& kernel_case : Suite().cases) {
    EXPECT_LE(LayOutArena(kernel_case.spec.arguments).words.size(), kArenaWords) << kernel_case.Id();
    EXPECT_LE(kernel_case.spec.block.Count(), 32u) << kernel_case.Id();
    bool has_output = false;
    for (const KernelArgument& argument : kernel_case.spec.arguments) has_output |= argument.is_output;
    EXPECT_TRUE(has_output) << kernel_case.Id();
  }
}

TEST(KernelsTest, EveryKernelCompilesWithItsCasesArguments) {
  for (const KernelCase& kernel_case : Suite().cases) {
    const absl::StatusOr<const CompiledKernel*> kernel =
        FindKernel(Compiled(kernel_case.kernel), kernel_case.spec.kernel);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const absl::StatusOr<std::vector<KernelArgument>> ordered =
        OrderArguments(kernel_case.spec.arguments, (*kernel)->ParameterNames());
    ASSERT_TRUE(ordered.ok()) << kernel_case.Id() << ": " << ordered.status();
    for (size_t i = 0; i < ordered->size(); ++i) {
      const bool is_buffer = (*ordered)[i].kind == KernelArgument::Kind::kBuffer;
      EXPECT_EQ(is_buffer, (*kernel)->parameters[i].is_pointer) << kernel_case.Id() << " " << (*ordered)[i].name;
    }
    EXPECT_EQ(Compiled(kernel_case.kernel).warnings, "");
  }
}

TEST(KernelsTest, PtxasAssemblesEveryKernelForTheT4) {
  if (!Installed("ptxas")) GTEST_SKIP() << "ptxas is not installed";
  const TemporaryFolder folder;
  for (const std::string& kernel : Suite().KernelNames()) {
    ASSERT_TRUE(WriteFileAtomically(folder.File("k.ptx"), Compiled(kernel).ptx).ok());
    EXPECT_EQ(
        Failure(fmt::format("ptxas -arch=sm_75 '{}' -o '{}'", folder.File("k.ptx"), folder.File("k.cubin")), folder),
        "")
        << kernel;
  }
}

TEST(KernelsTest, NvccCompilesEveryKernelUnchanged) {
  if (!Installed("nvcc")) GTEST_SKIP() << "nvcc is not installed";
  const TemporaryFolder folder;
  for (const std::string& kernel : Suite().KernelNames()) {
    ASSERT_TRUE(WriteFileAtomically(folder.File("k.cu"), EmbeddedKernelSource(kernel + ".cu").value()).ok());
    EXPECT_EQ(
        Failure(fmt::format("nvcc -arch=sm_75 -ptx '{}' -o '{}'", folder.File("k.cu"), folder.File("k.ptx")), folder),
        "")
        << kernel;
  }
}

TEST(KernelsTest, ReferencesComputeWhatIsKnown) {
  const uint32_t minus_one = ~0u;
  EXPECT_THAT(ExpectedBuffer("dot/demo", "out"), ElementsAre(32));
  EXPECT_THAT(ExpectedBuffer("dot/zero_length", "out"), ElementsAre(0));
  EXPECT_THAT(ExpectedBuffer("vector_add/small", "c"), ElementsAre(11, uint32_t(-18), 33, uint32_t(-36)));
  EXPECT_THAT(ExpectedBuffer("vector_add/wraps", "c"),
              ElementsAre(0, uint32_t(-2), kIntMax, kIntMin, kIntMin, kIntMin + 1, kIntMax - 1));
  EXPECT_THAT(ExpectedBuffer("saxpy/small", "y"), ElementsAre(12, 24, 36, 48));
  EXPECT_THAT(ExpectedBuffer("relu/extremes", "out"), ElementsAre(0, kIntMax, 0, 0, 1, 0, kIntMax));
  EXPECT_THAT(ExpectedBuffer("clamp/small", "data"), ElementsAre(uint32_t(-5), uint32_t(-3), 3, 5));
  EXPECT_THAT(ExpectedBuffer("clamp/crossed_limits", "data"), testing::Each(uint32_t(-7)));
  EXPECT_THAT(ExpectedBuffer("abs_diff/small", "out"), ElementsAre(9, 22, 27, 44));
  EXPECT_THAT(ExpectedBuffer("polynomial/quadratic", "y"), ElementsAre(1, 2, 9, 34));
  EXPECT_THAT(ExpectedBuffer("polynomial/no_terms", "y"), ElementsAre(0, 0, 0));
  EXPECT_THAT(ExpectedBuffer("fibonacci/first_eight", "out"), ElementsAre(0, 1, 1, 2, 3, 5, 8, 13));
  EXPECT_THAT(ExpectedBuffer("fibonacci/extremes", "out"), ElementsAre(0, 0, 0, 1, 2971215073u));
  EXPECT_THAT(ExpectedBuffer("gcd/small", "out"), ElementsAre(4, 7, 9, 1));
  EXPECT_THAT(ExpectedBuffer("gcd/zeros", "out"), ElementsAre(0, 5, 9, kIntMin, kIntMax));
  EXPECT_THAT(ExpectedBuffer("collatz_steps/twenty_seven", "steps"), ElementsAre(111, 8));
  EXPECT_THAT(ExpectedBuffer("popcount/extremes", "out"), ElementsAre(1, 31, 32, 0, 16, 16));
  EXPECT_THAT(ExpectedBuffer("gather/reversal", "out"), ElementsAre(15, 14, 13, 12, 11, 10));
  // What lies beyond n, and word 0, stays as it was.
  EXPECT_EQ(ExpectedBuffer("vector_add/seven_in_two_blocks", "c").back(), minus_one);
  EXPECT_EQ(ExpectedMemory(Case("dot/demo"))->front(), 0u);
}

}  // namespace
}  // namespace qgpu
