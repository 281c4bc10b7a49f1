// Reverses an array in place, through shared memory whose size the launch gives; one thread block.
__global__ void reverse_shared(int* data, int n) {
  extern __shared__ int copy[];
  int t = threadIdx.x;
  if (t < n) copy[t] = data[t];
  __syncthreads();
  if (t < n) data[t] = copy[n - t - 1];
}
