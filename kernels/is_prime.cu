// 1 where an element is a prime number, by trial division.
__global__ void is_prime(const unsigned* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i];
  bool prime = value == 2 || (value > 2 && value % 2 == 1);
  for (unsigned d = 3; prime && d < 65536 && d * d <= value; d += 2) {
    if (value % d == 0) prime = false;
  }
  out[i] = prime;
}
