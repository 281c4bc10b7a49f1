// Multiplies two vectors element by element, keeping the low 32 bits of every product.
__global__ void elementwise_mul(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * b[i];
}
