// Steps until a point of the Mandelbrot picture escapes, in fixed point with 8 bits after the point.
__global__ void mandelbrot_fixed(int left, int top, int step, int* out, int width, int height, int max_steps) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= width || row >= height) return;
  int cx = left + column * step, cy = top + row * step;
  int x = 0, y = 0, steps = 0;
  while (steps < max_steps && x * x + y * y <= 4 << 16) {
    int next = ((x * x - y * y) >> 8) + cx;
    y = ((2 * x * y) >> 8) + cy;
    x = next;
    ++steps;
  }
  out[row * width + column] = steps;
}
