// Negative elements become zero.
__global__ void relu(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = max(in[i], 0);
}
