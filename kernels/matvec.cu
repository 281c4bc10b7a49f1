// Product of a matrix and a vector, one row a thread.
__global__ void matvec(const int* matrix, const int* x, int* y, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int sum = 0;
  for (int i = 0; i < columns; ++i) sum += matrix[row * columns + i] * x[i];
  y[row] = sum;
}
