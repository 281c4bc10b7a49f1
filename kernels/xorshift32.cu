// Advances Marsaglia's random number generators, one a thread, by a number of steps.
__global__ void xorshift32(unsigned* state, int steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = state[i];
  for (int k = 0; k < steps; ++k) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  state[i] = x;
}
