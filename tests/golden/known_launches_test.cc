// Launches whose token counts are known for code scheduled by hand on this machine: what the compiler makes of ordinary
// CUDA must not take more than a quarter more, and must leave the right words.
#include <cstdio>

#include "gtest/gtest.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

KernelArgument Buffer(const char* name, std::vector<uint32_t> words) {
  KernelArgument argument;
  argument.name = name;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.words = std::move(words);
  return argument;
}

KernelArgument Scalar(const char* name, uint64_t value) {
  KernelArgument argument;
  argument.name = name;
  argument.scalar = value;
  return argument;
}

struct KnownLaunch {
  const char* name;
  const char* source;
  uint32_t grid, block;
  std::vector<KernelArgument> arguments;
  int output;  // the argument whose words are checked
  std::vector<uint32_t> expected;
  size_t by_hand;  // tokens, DONE included
};

constexpr const char* kVectorAdd = R"(
__global__ void vector_add(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
})";

std::vector<KernelArgument> VectorAddArguments() {
  return {Buffer("a", {1, 2, 3, 4, 5, 6, 7, 8}), Buffer("b", {10, 20, 30, 40, 50, 60, 70, 80}),
          Buffer("out", std::vector<uint32_t>(8)), Scalar("n", 8)};
}

const std::vector<uint32_t> kSums = {11, 22, 33, 44, 55, 66, 77, 88};

std::vector<KnownLaunch> KnownLaunches() {
  return {
      {"dot of 3, one thread",
       R"(
__global__ void dot(const int* a, const int* b, int* out, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  out[0] = sum;
})",
       1,
       1,
       {Buffer("a", {1, 2, 3}), Buffer("b", {4, 5, 6}), Buffer("out", {0}), Scalar("n", 3)},
       2,
       {32},
       25},
      {"dot of 3, four threads, shared memory",
       R"(
__global__ void dot(const int* a, const int* b, int* out, int n) {
  __shared__ int part[4];
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += 4) sum += a[i] * b[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = part[0] + part[1] + part[2] + part[3];
})",
       1,
       4,
       {Buffer("a", {1, 2, 3}), Buffer("b", {4, 5, 6}), Buffer("out", {0}), Scalar("n", 3)},
       2,
       {32},
       36},
      {"gcd(48, 36) by subtraction",
       R"(
__global__ void gcd(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned x = a[0], y = b[0];
  while (x != y) {
    if (x > y) x -= y; else y -= x;
  }
  out[0] = x;
})",
       1,
       1,
       {Buffer("a", {48}), Buffer("b", {36}), Buffer("out", {0})},
       2,
       {12},
       22},
      {"gcd(48, 36) by remainder",
       R"(
__global__ void gcd(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned x = a[0], y = b[0];
  while (y != 0) {
    unsigned t = x % y;
    x = y;
    y = t;
  }
  out[0] = x;
})",
       1,
       1,
       {Buffer("a", {48}), Buffer("b", {36}), Buffer("out", {0})},
       2,
       {12},
       45},
      {"vector_add of 8, one block of 8", kVectorAdd, 1, 8, VectorAddArguments(), 2, kSums, 36},
      {"vector_add of 8, two blocks of 4", kVectorAdd, 2, 4, VectorAddArguments(), 2, kSums, 37},
      {"atomicAdd with old value, 8 threads",
       R"(
__global__ void count(int* total, int* old) {
  old[threadIdx.x] = atomicAdd(total, threadIdx.x + 1);
})",
       1,
       8,
       {Buffer("total", {100}), Buffer("old", std::vector<uint32_t>(8))},
       0,
       {136},
       60},
      {"collatz of 1, 6, 7, 3",
       R"(
__global__ void collatz(const unsigned* in, unsigned* steps) {
  unsigned x = in[threadIdx.x], count = 0;
  while (x != 1) {
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    ++count;
  }
  steps[threadIdx.x] = count;
})",
       1,
       4,
       {Buffer("in", {1, 6, 7, 3}), Buffer("steps", std::vector<uint32_t>(4))},
       1,
       {0, 8, 16, 7},
       136},
      {"one xorshift32 step",
       R"(
__global__ void step(const unsigned* in, unsigned* out) {
  unsigned x = in[0];
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  out[0] = x;
})",
       1,
       1,
       {Buffer("in", {2463534242u}), Buffer("out", {0})},
       1,
       {723471715},
       17},
  };
}

TEST(KnownLaunches, TakeAtMostAQuarterMoreTokensThanByHand) {
  for (const KnownLaunch& known : KnownLaunches()) {
    SCOPED_TRACE(known.name);
    LaunchSpec spec;
    spec.source = {"known.cu", known.source, SourceLanguage::kCuda};
    spec.grid.x = known.grid;
    spec.block.x = known.block;
    spec.arguments = known.arguments;
    const absl::StatusOr<LoweredKernel> lowered = CompileKernel(spec);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const MachineRun run = Interpret(lowered->launch, spec.token_budget);
    EXPECT_EQ(run.end, LaunchEnd::kDone);
    const size_t first = lowered->byte_address[known.output] / 4;
    for (size_t i = 0; i < known.expected.size(); ++i) EXPECT_EQ(run.state.memory[first + i], known.expected[i]) << i;
    printf("%-40s %4zu tokens, %4zu by hand\n", known.name, run.tokens.size(), known.by_hand);
    EXPECT_LE(4 * run.tokens.size(), 5 * known.by_hand) << Disassemble(lowered->launch.program);
  }
}

}  // namespace
}  // namespace qgpu
