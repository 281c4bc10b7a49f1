// 1 where an element has an odd number of one bits, by folding it onto itself.
__global__ void parity(const unsigned* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i];
  for (int shift = 16; shift > 0; shift >>= 1) value ^= value >> shift;
  out[i] = value & 1;
}
