// Sums of all elements up to and with each one, by a warp: the sums reach twice as far in every step.
__global__ void inclusive_scan(const int* in, int* out, int n) {
  int lane = threadIdx.x;
  int i = blockIdx.x * blockDim.x + lane;
  int sum = i < n ? in[i] : 0;
  for (int offset = 1; offset < 32; offset *= 2) {
    int before = __shfl_up_sync(0xffffffff, sum, offset);
    if (lane >= offset) sum += before;
  }
  if (i < n) out[i] = sum;
}
