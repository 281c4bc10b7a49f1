// The n-th Fibonacci number, modulo 2^32; every thread has an n of its own, and a loop of its own length.
__global__ void fibonacci(const int* n, unsigned* out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned a = 0, b = 1;
  for (int k = n[i]; k > 0; --k) {
    unsigned next = a + b;
    a = b;
    b = next;
  }
  out[i] = a;
}
