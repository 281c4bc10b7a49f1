// What CUDA code does to memory, as the header declares it: every atomic function of every scope and type, cached loads
// and stores, structs and arrays in every space; lowered and interpreted, against native-cpu.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

struct Call {
  std::string type;        // of what is in memory
  std::string expression;  // p: its place, v and w: two values
};

std::vector<Call> AtomicCalls() {
  std::vector<Call> calls;
  for (const char* suffix : {"", "_block", "_system"}) {
    for (const char* type : {"int", "unsigned", "long long", "unsigned long long"}) {
      const bool wide = std::string_view(type).ends_with("long long");
      for (const char* name : {"Add", "Sub", "Exch", "Min", "Max", "And", "Or", "Xor", "CAS", "Inc", "Dec"}) {
        const std::string_view n = name;
        if (std::string_view(type) == "long long" && n != "Min" && n != "Max") continue;
        if (wide && (n == "Sub" || n == "Inc" || n == "Dec")) continue;
        if (std::string_view(type) == "int" && (n == "Inc" || n == "Dec")) continue;
        calls.push_back({type, fmt::format("atomic{}{}(p, {})", name, suffix, n == "CAS" ? "*p, w" : "v")});
      }
    }
    calls.push_back({"unsigned short", fmt::format("atomicCAS{}(p, *p, w)", suffix)});
    calls.push_back({"unsigned short", fmt::format("atomicCAS{}(p, v, w)", suffix)});
  }
  return calls;
}

Comparison RunCuda(const KernelSource& source, const std::string& kernel, std::vector<uint32_t> in, uint32_t threads,
                   uint32_t dynamic_shared_bytes = 0) {
  LaunchSpec spec;
  spec.source = source;
  spec.kernel = kernel;
  spec.block.x = threads;
  spec.dynamic_shared_bytes = dynamic_shared_bytes;
  spec.arguments.resize(3);
  spec.arguments[0].kind = spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[0].words = std::move(in);
  spec.arguments[1].words.resize(24);
  spec.arguments[2].scalar = 3;
  return CompareEngines(spec);
}

const std::vector<uint32_t> kIn = {0xfffffff0, 7, 0x80000000, 0x7fffffff, 5,          0,  0xffffffff, 0xffffffff,
                                   1,          9, 0x8000ffff, 3,          0x00ff00ff, 77, 0x12345678, 0x9abcdef0};

TEST(MemoryCuda, EveryAtomicFunction) {
  KernelSource source{"atomics.cu", "", SourceLanguage::kCuda};
  const std::vector<Call> calls = AtomicCalls();
  ASSERT_EQ(calls.size(), 96u);
  for (size_t i = 0; i < calls.size(); ++i) {  // each thread has its own place, in `in` or in shared memory
    for (const bool shared : {false, true}) {
      source.text += fmt::format(
          "__global__ void k{0}{1}({2}* in, {2}* out, int n) {{\n  int t = threadIdx.x;\n{3}  {2} v = in[t + 2], w = "
          "in[t + 4];\n  out[t] = {4};\n  out[t + 2] = *p;\n}}\n",
          i, shared ? "s" : "g", calls[i].type,
          shared ? fmt::format("  __shared__ {} s[2];\n  {}* p = s + t;\n  *p = in[t];\n", calls[i].type, calls[i].type)
                 : fmt::format("  {}* p = in + t;\n", calls[i].type),
          calls[i].expression);
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const char* where : {"g", "s"}) {
      const Comparison comparison = RunCuda(source, fmt::format("k{}{}", i, where), kIn, 2);
      EXPECT_EQ(comparison.difference, "") << calls[i].type << " " << calls[i].expression << " " << where;
    }
  }
}

TEST(MemoryCuda, SpacesAndTypes) {
  const KernelSource source{"spaces.cu", R"(
struct Mixed { char a; short b; int c; long long d; unsigned char e[3]; };
__constant__ short table[6] = {1, -2, 3, -4, 5, -6};
__constant__ Mixed fixed = {1, 2, 3, 4, {5, 6, 7}};
__device__ int counter = 5;
__device__ unsigned char marks[8] = {9, 8, 7};

__global__ void constants(const int* in, int* out, int n) {
  int t = threadIdx.x;
  out[t] = table[t % 6] + fixed.e[t % 3] + fixed.b * (int)fixed.d;
}
__global__ void counts(const int* in, int* out, int n) {
  if (in[threadIdx.x] > 0) atomicAdd(&counter, in[threadIdx.x] & 15);
  __syncthreads();
  marks[threadIdx.x & 7] = (unsigned char)(threadIdx.x & 7);
  out[threadIdx.x] = counter + marks[threadIdx.x & 7];
}
__global__ void chars_in_shared(const int* in, int* out, int n) {
  __shared__ char text[24];
  __shared__ short halves[12];
  int t = threadIdx.x;
  text[t] = (char)in[t];
  halves[t] = (short)(in[t] >> 8);
  __syncthreads();
  out[t] = text[11 - t] + halves[11 - t];
}
__global__ void arrays_in_local(const int* in, int* out, int n) {
  int a[4];
  for (int i = 0; i < 4; ++i) a[i] = in[(threadIdx.x + i) & 15];
  a[in[threadIdx.x] & 3] = n;
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum = sum * 3 + a[(in[i] + i) & 3];
  out[threadIdx.x] = sum;
}
__global__ void dynamic(const int* in, int* out, int n) {
  extern __shared__ int words[];
  int t = threadIdx.x;
  words[t] = in[t];
  __syncthreads();
  out[t] = words[(t + n) % blockDim.x];
}
__global__ void longs(const long long* in, long long* out, int n) {
  int t = threadIdx.x;
  if (t < 8) out[t] = in[t] + in[7 - t];
}
__global__ void vectors(const int4* in, int4* out, int n) {
  if (threadIdx.x < 4) {
    int4 v = __ldg(in + threadIdx.x);
    out[threadIdx.x] = make_int4(v.w, v.z + 1, v.y, v.x);
  }
}
__global__ void bytes(const uchar4* in, uchar4* out, int n) {
  uchar4 v = in[threadIdx.x];
  out[threadIdx.x] = make_uchar4(v.w, v.x, v.z + v.y, n);
}
__global__ void cached(const int* in, int* out, int n) {
  int t = threadIdx.x;
  int v = __ldg(in + t) + __ldcg(in + 1) - __ldca(in + 2) + __ldcs(in + 3) - __ldlu(in + 4) + __ldcv(in + 5);
  __stcg(out + t, v);
  __stwt(out + 12 + t, __isGlobal(in) + 2 * __isShared(in) + 4 * __isConstant(&table) + 8 * __isLocal(in));
  __threadfence_block();
  __threadfence();
  __threadfence_system();
}
__global__ void generic(const int* in, int* out, int n) {
  __shared__ int s[12];
  s[threadIdx.x] = 100 + threadIdx.x;
  __syncthreads();
  const int* p = (in[threadIdx.x] & 1) ? s + threadIdx.x : in + threadIdx.x;
  out[threadIdx.x] = *p + *(int*)__cvta_shared_to_generic(__cvta_generic_to_shared(s + 3));
}
__global__ void strided(const int* in, int* out, int n) {
  int sum = 0;
  const int* p = in + threadIdx.x;
  for (int i = 0; i < 2; ++i, p += n) sum += *p;
  out[threadIdx.x] = sum;
}
)",
                            SourceLanguage::kCuda};
  for (const char* kernel : {"constants", "counts", "chars_in_shared", "arrays_in_local", "dynamic", "longs", "vectors",
                             "bytes", "cached", "generic", "strided"}) {
    const bool is_local = std::string_view(kernel) == "arrays_in_local";
    EXPECT_EQ(RunCuda(source, kernel, kIn, is_local ? 5 : 12, 48).difference, "") << kernel;
  }
}

}  // namespace
}  // namespace qgpu
