// Gray code of every element, and the number that the element is the Gray code of.
__global__ void gray_code(const unsigned* x, unsigned* gray, unsigned* number, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i];
  gray[i] = value ^ (value >> 1);
  value ^= value >> 16;
  value ^= value >> 8;
  value ^= value >> 4;
  value ^= value >> 2;
  value ^= value >> 1;
  number[i] = value;
}
