// A layer's projection: the product with a weight matrix. Decoding does little else, and is as fast as the weights can
// be read.
#pragma once

#include "ATen/core/Tensor.h"

namespace qgpu {

// Who multiplies a matrix by one bfloat16 vector on the CPU.
enum class VectorKernel { kLibtorch, kAvx2, kAvx512 };
// The best that this CPU has.
VectorKernel BestVectorKernel();

// x [n, k] times the transpose of weight [m, k], both of one type: [n, m], summed in float32, rounded once.
//
// This is at::linear, except for one position in bfloat16 on a CPU with AVX2 or AVX-512: libtorch reads the weights
// there at about half the speed of memory (bench/README.md), so that product is our own. Its result does not depend on
// the number of threads. `kernel` must be one that the CPU has.
at::Tensor Project(const at::Tensor& x, const at::Tensor& weight, VectorKernel kernel = BestVectorKernel());

}  // namespace qgpu
