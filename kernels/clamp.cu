// Confines every element to [low, high], in place.
__global__ void clamp(int* data, int low, int high, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = min(max(data[i], low), high);
}
