// Largest element, and the largest as unsigned numbers, by atomics on one word each.
__global__ void atomic_max(const int* in, int* largest, unsigned* largest_unsigned, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMax(largest, in[i]);
  atomicMax(largest_unsigned, (unsigned)in[i]);
}
