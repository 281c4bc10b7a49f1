// The vector loops of the forward pass. On x86-64 each is compiled for several instruction sets and chosen when the
// program is loaded; none of them uses fused multiply-adds or another order of summation, so that results are the same.
#pragma once

#include <cstdint>

namespace qgpu::sparse {

// A full block of 64 weights, bfloat16, and the first of the rows it belongs to.
struct DenseBlock {
  uint32_t first_row, at;  // `at`: place of its weights in the matrix's array
};
inline constexpr int kBlockRows = 64;

// y[first_row + i] += weights[at + i] * x for every block.
void AddBlocks(const DenseBlock* blocks, int count, const uint16_t* weights, float x, float* y);
// y[i] += x[i] * factor
void AddScaled(float* y, const float* x, float factor, int count);
// y[i] += x[i]
void AddTo(float* y, const float* x, int count);
// out[i] = round(x[i] * factor * scale[i])
void Normalize(const float* x, float factor, const float* scale, int count, bool bfloat16, float* out);
// x[i] = round(x[i] + round(y[i]))
void AddResidual(float* x, const float* y, int count, bool bfloat16);
// x[i] = round(x[i]) to bfloat16
void RoundAll(float* x, int count);
// Sum of squares, in 16 interleaved partial sums.
float SumOfSquares(const float* x, int count);
// The largest value, -inf for none; NaN are passed over.
float Largest(const float* x, int count);
// Writes the indices i with x[i] > threshold, ascending; returns how many. NaN counts as above. `out` has room for
// count.
int CollectAbove(const float* x, int count, float threshold, uint16_t* out);
// The same for x[i] != 0.
int CollectNonzero(const float* x, int count, uint16_t* out);

}  // namespace qgpu::sparse
