#include "model/forward/torch/project.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qgpu {
namespace {

using at::Tensor;

#if defined(__x86_64__)

// Rows of the matrix that are summed at once: each is a stream of its own for the memory.
constexpr int64_t kRows = 4;
// Elements that are multiplied at once, in both variants; a row's rest is filled up with zeros.
constexpr int64_t kBlock = 32;
constexpr int64_t kPrefetch = 1024 / sizeof(uint16_t);  // elements ahead
// Elements of the matrix that are worth a thread.
constexpr int64_t kGrain = 1 << 20;

// The vector as float32, its elements with even and with odd index apart: two neighbouring bfloat16 are the halves of a
// 32-bit word, and each half becomes a float32 by one operation. Zeros up to a multiple of kBlock.
struct SplitVector {
  std::vector<float> even, odd;

  explicit SplitVector(const at::BFloat16* x, int64_t size) {
    const int64_t half = (size + kBlock - 1) / kBlock * (kBlock / 2);
    even.resize(half);
    odd.resize(half);
    for (int64_t i = 0; i < size / 2; ++i) even[i] = x[2 * i], odd[i] = x[2 * i + 1];
    if (size % 2 != 0) even[size / 2] = x[size - 1];
  }
};

// sums[i] = the product of row i and the vector.
using SumRows = void (*)(const uint16_t* rows, int64_t cols, const SplitVector& x, float* sums);

// The columns behind the last whole block of each row, followed by zeros.
void CopyRest(const uint16_t* rows, int64_t cols, uint16_t (&rest)[kRows][kBlock]) {
  const int64_t whole = cols / kBlock * kBlock;
  std::memset(rest, 0, sizeof(rest));
  for (int64_t i = 0; i < kRows; ++i) std::memcpy(rest[i], rows + i * cols + whole, (cols - whole) * sizeof(uint16_t));
}

template <size_t kLanes>
float SumLanes(float (&lanes)[kLanes]) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

__attribute__((target("avx512f"))) void SumRowsAvx512(const uint16_t* rows, int64_t cols, const SplitVector& x,
                                                      float* sums) {
  const __m512i high_half = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  __m512 even[kRows], odd[kRows];
  for (int64_t i = 0; i < kRows; ++i) even[i] = odd[i] = _mm512_setzero_ps();
  const auto add = [&](const uint16_t* block, int64_t stride, int64_t col) __attribute__((target("avx512f"))) {
    const __m512 x_even = _mm512_loadu_ps(&x.even[col / 2]), x_odd = _mm512_loadu_ps(&x.odd[col / 2]);
    for (int64_t i = 0; i < kRows; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(block + i * stride + kPrefetch), _MM_HINT_T0);
      const __m512i pairs = _mm512_loadu_si512(block + i * stride);
      even[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, pairs, 16)), x_even, even[i]);
      odd[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(pairs, high_half)), x_odd, odd[i]);
    }
  };
  int64_t col = 0;
  for (; col + kBlock <= cols; col += kBlock) add(rows + col, cols, col);
  if (col < cols) {
    uint16_t rest[kRows][kBlock];
    CopyRest(rows, cols, rest);
    add(rest[0], kBlock, col);
  }
  for (int64_t i = 0; i < kRows; ++i) {
    float lanes[16];
    _mm512_storeu_ps(lanes, _mm512_add_ps(even[i], odd[i]));
    sums[i] = SumLanes(lanes);
  }
}

__attribute__((target("avx2,fma"))) void SumRowsAvx2(const uint16_t* rows, int64_t cols, const SplitVector& x,
                                                     float* sums) {
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  __m256 even[kRows], odd[kRows];
  for (int64_t i = 0; i < kRows; ++i) even[i] = odd[i] = _mm256_setzero_ps();
  const auto add = [&](const uint16_t* block, int64_t stride, int64_t col) __attribute__((target("avx2,fma"))) {
    for (int64_t half = 0; half < kBlock; half += kBlock / 2) {
      const __m256 x_even = _mm256_loadu_ps(&x.even[(col + half) / 2]);
      const __m256 x_odd = _mm256_loadu_ps(&x.odd[(col + half) / 2]);
      for (int64_t i = 0; i < kRows; ++i) {
        const uint16_t* at = block + i * stride + half;
        _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetch), _MM_HINT_T0);
        const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
        even[i] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)), x_even, even[i]);
        odd[i] = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(pairs, high_half)), x_odd, odd[i]);
      }
    }
  };
  int64_t col = 0;
  for (; col + kBlock <= cols; col += kBlock) add(rows + col, cols, col);
  if (col < cols) {
    uint16_t rest[kRows][kBlock];
    CopyRest(rows, cols, rest);
    add(rest[0], kBlock, col);
  }
  for (int64_t i = 0; i < kRows; ++i) {
    float lanes[8];
    _mm256_storeu_ps(lanes, _mm256_add_ps(even[i], odd[i]));
    sums[i] = SumLanes(lanes);
  }
}

// Shares 0 to `count` among at most `most` threads, and no more than libtorch uses. at::parallel_for would run on one:
// it is a header, which needs this file to be compiled for libtorch's own copy of OpenMP.
template <typename Work>
void InThreads(int64_t count, int64_t most, const Work& work) {
  const int64_t threads = std::clamp<int64_t>(most, 1, at::get_num_threads());
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) {
    others.emplace_back([&work, i, count, threads] { work(count * i / threads, count * (i + 1) / threads); });
  }
  work(0, count / threads);
}

Tensor ProjectOne(const Tensor& x, const Tensor& weight, VectorKernel kernel) {
  const SumRows sum_rows = kernel == VectorKernel::kAvx512 ? SumRowsAvx512 : SumRowsAvx2;
  const int64_t rows = weight.size(0), cols = weight.size(1);
  const Tensor contiguous = x.contiguous();
  const SplitVector vector(contiguous.const_data_ptr<at::BFloat16>(), cols);
  Tensor out = at::empty({1, rows}, x.options());
  at::BFloat16* result = out.data_ptr<at::BFloat16>();
  const auto* matrix = reinterpret_cast<const uint16_t*>(weight.const_data_ptr<at::BFloat16>());
  const auto sum = [&](int64_t row, int64_t count, const uint16_t* from) {
    float sums[kRows];
    sum_rows(from, cols, vector, sums);
    for (int64_t i = 0; i < count; ++i) result[row + i] = sums[i];
  };
  const int64_t groups = rows / kRows, whole = groups * kRows;
  InThreads(groups, rows * cols / kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) sum(group * kRows, kRows, matrix + group * kRows * cols);
  });
  if (whole < rows) {  // filled up with zeros
    std::vector<uint16_t> last(kRows * cols);
    std::copy(matrix + whole * cols, matrix + rows * cols, last.begin());
    sum(whole, rows - whole, last.data());
  }
  return out;
}

#endif

}  // namespace

VectorKernel BestVectorKernel() {
#if defined(__x86_64__)
  static const VectorKernel best = [] {
    if (__builtin_cpu_supports("avx512f")) return VectorKernel::kAvx512;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return has_avx2 ? VectorKernel::kAvx2 : VectorKernel::kLibtorch;
  }();
  return best;
#else
  return VectorKernel::kLibtorch;
#endif
}

Tensor Project(const Tensor& x, const Tensor& weight, [[maybe_unused]] VectorKernel kernel) {
#if defined(__x86_64__)
  const bool is_vector = x.size(0) == 1 && x.scalar_type() == at::kBFloat16 && x.device().is_cpu();
  if (is_vector && kernel != VectorKernel::kLibtorch && weight.is_contiguous() && weight.numel() > 0) {
    return ProjectOne(x, weight, kernel);
  }
#endif
  return at::linear(x, weight);
}

}  // namespace qgpu
