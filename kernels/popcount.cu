// Counts the one bits of every element, one bit after the other.
__global__ void popcount(const unsigned* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int count = 0;
  for (unsigned bits = x[i]; bits != 0; bits >>= 1) count += bits & 1;
  out[i] = count;
}
