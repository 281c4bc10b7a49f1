// The larger of two elements, and which of the two it was (0 for a, 1 for b; a when they are equal).
__global__ void select_max(const int* a, const int* b, int* out, int* which, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (b[i] > a[i]) {
    out[i] = b[i];
    which[i] = 1;
  } else {
    out[i] = a[i];
    which[i] = 0;
  }
}
