// |a - b|, element by element.
__global__ void abs_diff(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = abs(a[i] - b[i]);
}
