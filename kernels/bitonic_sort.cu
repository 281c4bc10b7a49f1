// Sorts up to blockDim.x elements in shared memory by Batcher's bitonic network; blockDim.x is a power of two.
__global__ void bitonic_sort(int* data, int n) {
  __shared__ int values[32];
  int t = threadIdx.x;
  values[t] = t < n ? data[t] : INT_MAX;
  __syncthreads();
  for (int size = 2; size <= blockDim.x; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      int partner = t ^ stride;
      if (partner > t) {
        int a = values[t], b = values[partner];
        bool ascending = (t & size) == 0;
        if ((a > b) == ascending) {
          values[t] = b;
          values[partner] = a;
        }
      }
      __syncthreads();
    }
  }
  if (t < n) data[t] = values[t];
}
