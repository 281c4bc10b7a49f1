// Dot product, by the first thread of a warp.
__global__ void dot(const int* a, const int* b, int* out, int n) {
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  out[0] = sum;
}
