// All products of an element of a and an element of b; threads are numbered along the rows of the result.
__global__ void outer_product(const int* a, const int* b, int* out, int rows, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) out[i] = a[i / columns] * b[i % columns];
}
