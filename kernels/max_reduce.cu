// Largest of all elements, by one thread block: first every thread's own, then in shared memory.
__global__ void max_reduce(const int* in, int* out, int n) {
  __shared__ int largest[32];
  int t = threadIdx.x;
  int mine = INT_MIN;
  for (int i = t; i < n; i += blockDim.x) mine = max(mine, in[i]);
  largest[t] = mine;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride) largest[t] = max(largest[t], largest[t + stride]);
    __syncthreads();
  }
  if (t == 0) *out = largest[0];
}
