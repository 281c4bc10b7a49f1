// Sum of every thread block's part, halving the number of threads that add; blockDim.x is a power of two.
__global__ void sum_shared(const int* in, int* out, int n) {
  __shared__ int partial[32];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  partial[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride) partial[t] += partial[t + stride];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial[0];
}
