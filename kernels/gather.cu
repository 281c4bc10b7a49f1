// out[i] = data[index[i]]: loads whose addresses come from memory.
__global__ void gather(const int* data, const int* index, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = data[index[i]];
}
