// out[index[i]] = data[i]: stores whose addresses come from memory.
__global__ void scatter(const int* data, const int* index, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[index[i]] = data[i];
}
