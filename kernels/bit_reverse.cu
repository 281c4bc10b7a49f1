// Mirrors the 32 bits of every element.
__global__ void bit_reverse(const unsigned* x, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __brev(x[i]);
}
