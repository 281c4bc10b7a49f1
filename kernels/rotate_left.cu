// Rotates every element left by an amount of its own, modulo 32.
__global__ void rotate_left(const unsigned* x, const int* amount, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int left = amount[i] & 31;
  out[i] = (x[i] << left) | (x[i] >> (-left & 31));
}
