// Transposes a matrix in tiles of 4 x 4 that pass through shared memory.
__global__ void transpose(const int* in, int* out, int rows, int columns) {
  __shared__ int tile[4][5];
  int x = blockIdx.x * 4 + threadIdx.x;
  int y = blockIdx.y * 4 + threadIdx.y;
  if (y < rows && x < columns) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
  __syncthreads();
  x = blockIdx.y * 4 + threadIdx.x;
  y = blockIdx.x * 4 + threadIdx.y;
  if (y < columns && x < rows) out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}
