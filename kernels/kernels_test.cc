// The kernels of all suites: their cases reach the corners they must, their CUDA compiles here, assembles with NVIDIA's
// ptxas for a T4 and compiles unchanged with nvcc (where those are installed), and what they compute is known.
#include <limits>
#include <map>
#include <set>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/installed_tools.h"
#include "kernels/suite.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"
#include "lowering/ptx/ptx.h"

namespace qgpu {
namespace {

using testing::ElementsAre;

constexpr size_t kMemoryWords = 126;  // the machine's
constexpr uint32_t kIntMin = 0x80000000u, kIntMax = 0x7fffffffu;

const std::vector<KernelSuite>& Suites() {
  static const std::vector<KernelSuite> suites = [] {
    std::vector<KernelSuite> all;
    for (const std::string& name : EmbeddedSuiteNames()) all.push_back(LoadSuite(name).value());
    return all;
  }();
  return suites;
}

const KernelSuite& Suite(const std::string& name) {
  for (const KernelSuite& suite : Suites()) {
    if (suite.name == name) return suite;
  }
  ADD_FAILURE() << "no suite " << name;
  return Suites().front();
}

const std::vector<KernelCase>& AllCases() {
  static const std::vector<KernelCase> cases = EmbeddedCases().value();
  return cases;
}

std::set<std::string> AllKernels() {
  std::set<std::string> names;
  for (const KernelCase& kernel_case : AllCases()) names.insert(kernel_case.kernel);
  return names;
}

const KernelCase& Case(const std::string& id) {
  for (const KernelCase& kernel_case : AllCases()) {
    if (kernel_case.Id() == id) return kernel_case;
  }
  ADD_FAILURE() << "no case " << id;
  return AllCases().front();
}

// Each kernel's PTX, compiled once.
const CompiledPtx& Compiled(const std::string& kernel) {
  static std::map<std::string, CompiledPtx> compiled;
  if (!compiled.contains(kernel)) {
    KernelSource source = {kernel + ".cu", EmbeddedKernelSource(kernel + ".cu").value()};
    absl::StatusOr<CompiledPtx> result = CompileCudaToPtx(source);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) compiled[kernel] = std::move(result).value();
  }
  return compiled[kernel];
}

// Words that a kernel takes beside the arena: shared, constant and, for every thread, local ones.
size_t WordsBesideTheArena(const KernelCase& kernel_case) {
  const absl::StatusOr<ptx::Module> module = ptx::ParsePtx("k.ptx", Compiled(kernel_case.kernel).ptx);
  EXPECT_TRUE(module.ok()) << module.status();
  uint64_t bytes = kernel_case.spec.dynamic_shared_bytes;
  const auto add = [&](const ptx::Variable& variable) {
    if (variable.is_extern || variable.space == ptx::Space::kParam || variable.space == ptx::Space::kReg) return;
    bytes += variable.Bytes() * (variable.space == ptx::Space::kLocal ? kernel_case.spec.block.Count() : 1);
  };
  for (const ptx::Variable& variable : module->variables) add(variable);
  for (const ptx::Function& function : module->functions) {
    for (const ptx::Variable& variable : function.variables) add(variable);
  }
  return (bytes + 3) / 4;
}

std::vector<uint32_t> ExpectedBuffer(const std::string& id, const std::string& buffer) {
  const absl::StatusOr<MemoryImage> memory = ExpectedMemory(Case(id));
  EXPECT_TRUE(memory.ok()) << memory.status();
  return BufferOf(Case(id), *memory, buffer).value();
}

TEST(KernelsTest, SuitesHaveTheirKernels) {
  EXPECT_THAT(
      Suite("kernels").KernelNames(),
      ElementsAre("vector_add", "saxpy", "elementwise_mul", "abs_diff", "clamp", "relu", "polynomial", "select_max",
                  "popcount", "bit_reverse", "gray_code", "parity", "rotate_left", "xorshift32", "crc32", "dot",
                  "sum_shared", "sum_shuffle", "max_reduce", "min_reduce", "argmax", "count_if", "all_any_vote",
                  "inclusive_scan", "exclusive_scan_shared", "bitonic_sort", "odd_even_sort", "rank_sort",
                  "merge_sorted", "matmul", "matvec", "transpose", "determinant3", "outer_product", "gcd", "factorial",
                  "fibonacci", "is_prime", "mod_pow", "collatz_steps", "integer_sqrt", "histogram", "atomic_max",
                  "cas_counter", "gather", "scatter", "stencil_shared", "reverse_shared", "xor_network"));
  EXPECT_THAT(Suite("extra").KernelNames(),
              ElementsAre("game_of_life", "mandelbrot_fixed", "binary_search", "string_match", "stream_compact",
                          "run_length", "caesar", "n_queens_count", "knapsack_small", "edit_distance_small"));
  // What two suites have in common is the same in both.
  std::set<std::string> ids;
  for (const KernelCase& kernel_case : AllCases()) EXPECT_TRUE(ids.insert(kernel_case.Id()).second) << kernel_case.Id();
}

TEST(KernelsTest, CasesReachTheCorners) {
  for (const std::string& kernel : AllKernels()) {
    int cases = 0;
    bool empty = false, extreme = false, several_blocks = false, ragged = false;
    for (const KernelCase& kernel_case : AllCases()) {
      if (kernel_case.kernel != kernel) continue;
      ++cases;
      several_blocks |= kernel_case.spec.grid.Count() > 1;
      for (const KernelArgument& argument : kernel_case.spec.arguments) {
        const bool is_buffer = argument.kind == KernelArgument::Kind::kBuffer;
        empty |= is_buffer ? argument.words.empty() : argument.scalar == 0;
        ragged |= is_buffer && argument.words.size() % 4 != 0;
        for (const uint32_t word : argument.words) extreme |= word == kIntMin || word == kIntMax;
        extreme |= !is_buffer && static_cast<uint32_t>(argument.scalar) == kIntMin;
      }
    }
    EXPECT_GE(cases, 4) << kernel;
    EXPECT_TRUE(extreme) << kernel << " never meets INT_MIN or INT_MAX";
    EXPECT_TRUE(ragged) << kernel << " has only lengths that are multiples of 4";
    // A vote needs its whole warp.
    EXPECT_TRUE(empty || kernel == "all_any_vote") << kernel << " has no case of length zero";
    // Those that work with one thread block.
    const std::set<std::string> one_block = {
        "max_reduce",     "argmax",     "bitonic_sort",   "odd_even_sort",  "reverse_shared",
        "stream_compact", "run_length", "n_queens_count", "knapsack_small", "edit_distance_small"};
    EXPECT_NE(several_blocks, one_block.contains(kernel)) << kernel;
  }
}

TEST(KernelsTest, EveryCaseFitsTheMachine) {
  for (const KernelCase& kernel_case : AllCases()) {
    const size_t words = LayOutArena(kernel_case.spec.arguments).words.size() + WordsBesideTheArena(kernel_case);
    EXPECT_LE(words, kMemoryWords) << kernel_case.Id();
    EXPECT_LE(kernel_case.spec.block.Count(), 32u) << kernel_case.Id();
    bool has_output = false;
    for (const KernelArgument& argument : kernel_case.spec.arguments) has_output |= argument.is_output;
    EXPECT_TRUE(has_output) << kernel_case.Id();
  }
}

TEST(KernelsTest, EveryKernelCompilesWithItsCasesArguments) {
  for (const KernelCase& kernel_case : AllCases()) {
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
  for (const std::string& kernel : AllKernels()) {
    ASSERT_TRUE(WriteFileAtomically(folder.File("k.ptx"), Compiled(kernel).ptx).ok());
    EXPECT_EQ(
        Failure(fmt::format("ptxas -arch=sm_75 '{}' -o '{}'", folder.File("k.ptx"), folder.File("k.cubin")), folder),
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
  EXPECT_THAT(ExpectedBuffer("crc32/check_value", "crc"), ElementsAre(0xcbf43926u));
  EXPECT_THAT(ExpectedBuffer("xorshift32/one_step", "state"), ElementsAre(270369, 540738, 811107, 1081476));
  EXPECT_THAT(ExpectedBuffer("gray_code/first_eight", "gray"), ElementsAre(0, 1, 3, 2, 6, 7, 5, 4));
  EXPECT_THAT(ExpectedBuffer("gray_code/first_eight", "number"), ElementsAre(0, 1, 3, 2, 7, 6, 4, 5));
  EXPECT_THAT(ExpectedBuffer("parity/small", "out"), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(ExpectedBuffer("rotate_left/small", "out"), ElementsAre(1, 2, kIntMin, 1, 0x34567812));
  EXPECT_THAT(ExpectedBuffer("bit_reverse/small", "out"), ElementsAre(0, kIntMin, 0x40000000, 0xc0000000, 0xff000000));
  EXPECT_THAT(ExpectedBuffer("sum_shuffle/counting", "out"), ElementsAre(528));
  EXPECT_THAT(ExpectedBuffer("argmax/first_of_equals", "out"), ElementsAre(1));
  EXPECT_THAT(ExpectedBuffer("all_any_vote/last_lane_only", "which"), ElementsAre(kIntMin));
  EXPECT_THAT(ExpectedBuffer("exclusive_scan_shared/small", "out"), ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(ExpectedBuffer("merge_sorted/small", "out"), ElementsAre(1, 2, 3, 3, 4, 5, 6));
  EXPECT_THAT(ExpectedBuffer("matmul/two_by_two", "c"), ElementsAre(19, 22, 43, 50));
  EXPECT_THAT(ExpectedBuffer("determinant3/known", "out"), ElementsAre(1, 0, 49));
  EXPECT_THAT(ExpectedBuffer("factorial/extremes", "out"), ElementsAre(1, 1, 1, 1, 479001600));
  EXPECT_THAT(ExpectedBuffer("is_prime/first_twelve", "out"), ElementsAre(0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(ExpectedBuffer("mod_pow/small", "out"), ElementsAre(24, 81, 1, 0));
  EXPECT_THAT(ExpectedBuffer("integer_sqrt/extremes", "root"), ElementsAre(46340, 46340, 65535, 0, 65535, 65534));
  EXPECT_THAT(ExpectedBuffer("histogram/small", "bins"), ElementsAre(2, 2, 0, 3, 0, 0, 0, 1));
  EXPECT_THAT(ExpectedBuffer("cas_counter/stops_at_the_limit", "counter"), ElementsAre(20));
  EXPECT_THAT(ExpectedBuffer("stencil_shared/small", "out"), ElementsAre(4, 8, 12, 16, 14));
  EXPECT_THAT(ExpectedBuffer("xor_network/truth_table", "out"), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(ExpectedBuffer("string_match/twice", "count"), ElementsAre(2));
  EXPECT_THAT(ExpectedBuffer("run_length/small", "lengths"), ElementsAre(3, 2, 1, 2, 88));
  EXPECT_THAT(ExpectedBuffer("caesar/hello", "text").front(), 0x6f6f684bu);  // "KHoo" of "Khoor"
  EXPECT_THAT(ExpectedBuffer("n_queens_count/board_of_5", "count"), ElementsAre(110));
  EXPECT_THAT(ExpectedBuffer("knapsack_small/small", "best"), ElementsAre(90));
  EXPECT_THAT(ExpectedBuffer("edit_distance_small/kitten_sitting", "out"), ElementsAre(3));
  // What lies beyond n, and word 0, stays as it was.
  EXPECT_EQ(ExpectedBuffer("vector_add/seven_in_two_blocks", "c").back(), minus_one);
  EXPECT_EQ(ExpectedMemory(Case("dot/demo"))->front(), 0u);
}

}  // namespace
}  // namespace qgpu
