// Run-length encoding by one thread block: runs are numbered by a scan of their beginnings, and measured by those.
__global__ void run_length(const int* in, int* values, int* lengths, int* runs, int n) {
  __shared__ int number[32];
  int t = threadIdx.x;
  bool begins = t < n && (t == 0 || in[t] != in[t - 1]);
  number[t] = begins;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    int before = t >= offset ? number[t - offset] : 0;
    __syncthreads();
    number[t] += before;
    __syncthreads();
  }
  if (begins) {
    int end = t + 1;
    while (end < n && in[end] == in[t]) ++end;
    values[number[t] - 1] = in[t];
    lengths[number[t] - 1] = end - t;
  }
  if (t == 0) *runs = number[blockDim.x - 1];
}
