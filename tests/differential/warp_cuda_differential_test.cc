// What people write with a warp's intrinsics, functions that are not inlined, and switches, as CUDA: lowered and
// interpreted, against native-cpu, in thread blocks of several sizes.
#include <gtest/gtest.h>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

constexpr const char* kSource = R"(
__global__ void reduce_down(const int* in, int* out, int n) {
  int v = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  out[threadIdx.x] = v;
}
__global__ void reduce_xor(const int* in, int* out, int n) {
  int v = in[threadIdx.x];
#pragma unroll 1
  for (int mask = 16; mask > 0; mask >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, mask));
  out[threadIdx.x] = v;
}
__global__ void broadcast(const int* in, int* out, int n) {
  out[threadIdx.x] = in[threadIdx.x] - __shfl_sync(0xffffffff, in[threadIdx.x], 0);
}
__global__ void scan_of_segments(const int* in, int* out, int n) {
  int v = in[threadIdx.x], lane = threadIdx.x & 7;
  for (int d = 1; d < 8; d *= 2) {
    int below = __shfl_up_sync(0xffffffff, v, d, 8);
    if (lane >= d) v += below;
  }
  out[threadIdx.x] = v;
}
__global__ void wide(const int* in, int* out, int n) {
  unsigned long long v = (unsigned long long)in[threadIdx.x] << 20 | threadIdx.x;
  v += __shfl_xor_sync(0xffffffff, v, 1);
  out[threadIdx.x] = (int)(v >> 20) ^ (int)v;
}
__global__ void rank_of_kept(const int* in, int* out, int n) {
  int v = in[threadIdx.x];
  unsigned kept = __ballot_sync(0xffffffff, v & 1);
  out[threadIdx.x] = (v & 1) ? __popc(kept & ((1u << threadIdx.x) - 1)) : -1;
}
__global__ void early_exit(const int* in, int* out, int n) {
  if (threadIdx.x >= n) return;
  int v = in[threadIdx.x];
  unsigned live = __activemask();
  v += __shfl_down_sync(live, v, 1);
  out[threadIdx.x] = v * 100 + __popc(__ballot_sync(live, v & 1));
}
__global__ void votes(const int* in, int* out, int n) {
  int v = in[threadIdx.x];
  int r = __all_sync(0xffffffff, v < 100) + 2 * __any_sync(0xffffffff, v > 90) + 4 * __uni_sync(0xffffffff, v & 1);
  __syncwarp();
  out[threadIdx.x] = r + 8 * __syncthreads_count(v & 2) + 1000 * __syncthreads_and(v < 100) + 2000 * __syncthreads_or(v == 7);
}
__global__ void peers(const int* in, int* out, int n) {
  int all;
  unsigned same = __match_any_sync(0xffffffff, in[threadIdx.x] & 3);
  unsigned every = __match_all_sync(0xffffffff, n, &all);
  out[threadIdx.x] = same + every * all;
}
__global__ void peers64(const int* in, int* out, int n) {
  out[threadIdx.x] = __match_any_sync(0xffffffff, (long long)(in[threadIdx.x] & 3) << 33);
}
__device__ __noinline__ int step(int v, int k) { return v * k + 3; }
__device__ __noinline__ int collatz(int v) {
  int steps = 0;
  for (v &= 15; v > 1; ++steps) v = v & 1 ? 3 * v + 1 : v / 2;
  return step(steps, 2);
}
__global__ void calls(const int* in, int* out, int n) {
  out[threadIdx.x] = collatz(in[threadIdx.x]) + step(in[threadIdx.x], n);
}
struct Pair { int a, b; };
__device__ __noinline__ Pair exchanged(Pair p) { return {p.b, p.a + 1}; }
__global__ void structs(const int* in, int* out, int n) {
  Pair p = exchanged({in[threadIdx.x], n});
  out[threadIdx.x] = p.a * 31 + p.b;
}
__global__ void switches(const int* in, int* out, int n) {
  int v = in[threadIdx.x], r;
  switch (v & 7) {
    case 0: r = v + n; break;
    case 1: r = v * n; break;
    case 2: r = v ^ n; break;
    case 5: r = v - n; break;
    default: r = -v;
  }
  out[threadIdx.x] = r;
}
__global__ void block_reduce(const int* in, int* out, int n) {
  __shared__ int sums[32];
  int v = in[threadIdx.x], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  if (lane == 0) sums[warp] = v;
  __syncthreads();
  v = threadIdx.x < (blockDim.x + 31) / 32 ? sums[lane] : 0;
  if (warp == 0) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  }
  out[threadIdx.x] = v;
}
)";

LaunchSpec LaunchOf(const std::string& kernel, uint32_t threads) {
  LaunchSpec spec;
  spec.source = {"warp.cu", kSource, SourceLanguage::kCuda};
  spec.kernel = kernel;
  spec.block.x = threads;
  spec.token_budget = 100000;
  spec.arguments.resize(3);
  SplitMix64 random(threads);
  for (int i = 0; i < 2; ++i) {
    spec.arguments[i].kind = KernelArgument::Kind::kBuffer;
    for (uint32_t word = 0; word < threads; ++word) {
      spec.arguments[i].words.push_back(static_cast<uint32_t>(random.Below(120)));
    }
  }
  spec.arguments[2].scalar = (threads + 1) / 2;
  return spec;
}

TEST(WarpCuda, AgreesWithNativeCpu) {
  std::string table;
  for (const char* kernel :
       {"reduce_down", "reduce_xor", "broadcast", "scan_of_segments", "wide", "rank_of_kept", "early_exit", "votes",
        "peers", "peers64", "calls", "structs", "switches", "block_reduce"}) {
    for (uint32_t threads : {1u, 4u, 6u, 16u, 28u}) {
      const Comparison comparison = CompareEngines(LaunchOf(kernel, threads));
      EXPECT_EQ(comparison.difference, "") << kernel << " with " << threads << " threads";
      table += fmt::format("{} x {}: {} tokens, {} passes\n", kernel, threads, comparison.tokens, comparison.passes);
    }
  }
  printf("%s", table.c_str());
}

}  // namespace
}  // namespace qgpu
