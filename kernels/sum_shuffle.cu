// Sum of 32 elements by one warp, without shared memory: every lane takes from the lanes above it.
__global__ void sum_shuffle(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = i < n ? in[i] : 0;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
