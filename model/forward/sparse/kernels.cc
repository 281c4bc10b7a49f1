#include "model/forward/sparse/kernels.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "model/forward/sparse/rounding.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Sanitizers run before the loader has chosen; they get the plain version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define QGPU_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QGPU_VECTOR_CLONES
#endif

namespace qgpu::sparse {
namespace {

constexpr int kLanes = 16;

#if defined(__SSE2__)
// Compares 16 values at a time and turns the outcome into bits.
template <typename Compare, typename Scalar>
int Collect(const float* x, int count, uint16_t* out, Compare compare, Scalar scalar) {
  int found = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    uint32_t bits = 0;
    for (int part = 0; part < 4; ++part) {
      bits |= static_cast<uint32_t>(_mm_movemask_ps(compare(_mm_loadu_ps(x + i + 4 * part)))) << 4 * part;
    }
    for (; bits != 0; bits &= bits - 1) out[found++] = static_cast<uint16_t>(i + std::countr_zero(bits));
  }
  for (; i < count; ++i) {
    if (scalar(x[i])) out[found++] = static_cast<uint16_t>(i);
  }
  return found;
}
#else
template <typename Scalar>
int Collect(const float* x, int count, uint16_t* out, Scalar scalar) {
  int found = 0;
  for (int i = 0; i < count; ++i) {
    out[found] = static_cast<uint16_t>(i);
    found += scalar(x[i]);
  }
  return found;
}
#endif

}  // namespace

QGPU_VECTOR_CLONES
void AddBlocks(const DenseBlock* blocks, int count, const uint16_t* __restrict weights, float x, float* __restrict y) {
  for (int block = 0; block < count; ++block) {
    const uint16_t* __restrict from = weights + blocks[block].at;
    float* __restrict to = y + blocks[block].first_row;
    for (int i = 0; i < kBlockRows; ++i) to[i] += FromBFloat16(from[i]) * x;
  }
}

QGPU_VECTOR_CLONES
void AddScaled(float* __restrict y, const float* __restrict x, float factor, int count) {
  for (int i = 0; i < count; ++i) y[i] += x[i] * factor;
}

QGPU_VECTOR_CLONES
void AddTo(float* __restrict y, const float* __restrict x, int count) {
  for (int i = 0; i < count; ++i) y[i] += x[i];
}

QGPU_VECTOR_CLONES
void Normalize(const float* __restrict x, float factor, const float* __restrict scale, int count, bool bfloat16,
               float* __restrict out) {
  if (bfloat16) {
    for (int i = 0; i < count; ++i) out[i] = RoundToBFloat16(x[i] * factor * scale[i]);
  } else {
    for (int i = 0; i < count; ++i) out[i] = x[i] * factor * scale[i];
  }
}

QGPU_VECTOR_CLONES
void AddResidual(float* __restrict x, const float* __restrict y, int count, bool bfloat16) {
  if (bfloat16) {
    for (int i = 0; i < count; ++i) x[i] = RoundToBFloat16(x[i] + RoundToBFloat16(y[i]));
  } else {
    for (int i = 0; i < count; ++i) x[i] += y[i];
  }
}

QGPU_VECTOR_CLONES
void RoundAll(float* x, int count) {
  for (int i = 0; i < count; ++i) x[i] = RoundToBFloat16(x[i]);
}

QGPU_VECTOR_CLONES
float SumOfSquares(const float* x, int count) {
  float partial[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] += x[i + lane] * x[i + lane];
  }
  for (; i < count; ++i) partial[i % kLanes] += x[i] * x[i];
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) partial[lane] += partial[lane + step];
  }
  return partial[0];
}

QGPU_VECTOR_CLONES
float Largest(const float* x, int count) {
  float most[kLanes];
  std::fill_n(most, kLanes, -std::numeric_limits<float>::infinity());
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) most[lane] = most[lane] < x[i + lane] ? x[i + lane] : most[lane];
  }
  for (; i < count; ++i) most[0] = most[0] < x[i] ? x[i] : most[0];
  return *std::max_element(most, most + kLanes);
}

int CollectAbove(const float* x, int count, float threshold, uint16_t* out) {
  const auto scalar = [threshold](float value) { return !(value <= threshold); };
#if defined(__SSE2__)
  const __m128 limit = _mm_set1_ps(threshold);
  return Collect(x, count, out, [limit](__m128 four) { return _mm_cmpnle_ps(four, limit); }, scalar);
#else
  return Collect(x, count, out, scalar);
#endif
}

int CollectNonzero(const float* x, int count, uint16_t* out) {
  const auto scalar = [](float value) { return value != 0; };
#if defined(__SSE2__)
  const __m128 zero = _mm_setzero_ps();
  return Collect(x, count, out, [zero](__m128 four) { return _mm_cmpneq_ps(four, zero); }, scalar);
#else
  return Collect(x, count, out, scalar);
#endif
}

}  // namespace qgpu::sparse
