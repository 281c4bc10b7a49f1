// Largest integer whose square is not above the element, one bit after the other.
__global__ void integer_sqrt(const unsigned* x, unsigned* root, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned result = 0;
  for (unsigned bit = 1 << 15; bit != 0; bit >>= 1) {
    unsigned candidate = result | bit;
    if (candidate * candidate <= x[i]) result = candidate;
  }
  root[i] = result;
}
