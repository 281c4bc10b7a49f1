// Steps of the Collatz sequence from x[i] down to 1; 0 has none.
__global__ void collatz_steps(const unsigned* x, int* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i];
  int count = 0;
  while (value > 1) {
    if (value & 1) {
      value = 3 * value + 1;
    } else {
      value >>= 1;
    }
    ++count;
  }
  steps[i] = count;
}
