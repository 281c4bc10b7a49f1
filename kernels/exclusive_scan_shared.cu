// Sums of all elements before each one, within every thread block, in shared memory.
__global__ void exclusive_scan_shared(const int* in, int* out, int n) {
  __shared__ int sums[32];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  sums[t] = t > 0 && i <= n ? in[i - 1] : 0;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    int before = t >= offset ? sums[t - offset] : 0;
    __syncthreads();
    sums[t] += before;
    __syncthreads();
  }
  if (i < n) out[i] = sums[t];
}
