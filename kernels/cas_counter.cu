// A counter that stops at a limit, which no atomic addition offers: every thread adds by compare-and-swap.
__global__ void cas_counter(unsigned* counter, const unsigned* step, unsigned limit, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned seen = *counter;
  unsigned expected;
  do {
    expected = seen;
    seen = atomicCAS(counter, expected, expected + min(step[i], limit - expected));
  } while (seen != expected);
}
