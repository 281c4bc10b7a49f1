// n!, modulo 2^32, for an n of every thread's own.
__global__ void factorial(const int* n, unsigned* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned product = 1;
  for (int k = 2; k <= n[i]; ++k) product *= k;
  out[i] = product;
}
