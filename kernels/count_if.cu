// How many elements are above a threshold: counted at the thread block's barrier, then added up in memory.
__global__ void count_if(const int* in, int threshold, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int here = __syncthreads_count(i < n && in[i] > threshold);
  if (threadIdx.x == 0) atomicAdd(count, here);
}
