// c = a * b for an m x k and a k x n matrix, one element of c a thread.
__global__ void matmul(const int* a, const int* b, int* c, int m, int k, int n) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  int sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}
