// Counts the elements by their low three bits: per thread block in shared memory, then for the grid.
__global__ void histogram(const int* in, int* bins, int n) {
  __shared__ int local[8];
  for (int b = threadIdx.x; b < 8; b += blockDim.x) local[b] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&local[in[i] & 7], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < 8; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}
