// Index of the largest element, the first of several; by one thread block whose size is a power of two.
__global__ void argmax(const int* in, int* out, int n) {
  __shared__ int best[32];
  if (n <= 0) return;
  int t = threadIdx.x;
  int mine = t < n ? t : 0;
  for (int i = t + blockDim.x; i < n; i += blockDim.x) {
    if (in[i] > in[mine]) mine = i;
  }
  best[t] = mine;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride) {
      int a = best[t], b = best[t + stride];
      if (in[b] > in[a] || (in[b] == in[a] && b < a)) best[t] = b;
    }
    __syncthreads();
  }
  if (t == 0) *out = best[0];
}
