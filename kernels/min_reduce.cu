// Smallest of all elements: groups of four threads agree by shuffling, then each group's first one goes to memory.
__global__ void min_reduce(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int smallest = i < n ? in[i] : INT_MAX;
  smallest = min(smallest, __shfl_xor_sync(0xffffffff, smallest, 1, 4));
  smallest = min(smallest, __shfl_xor_sync(0xffffffff, smallest, 2, 4));
  if (threadIdx.x % 4 == 0) atomicMin(out, smallest);
}
