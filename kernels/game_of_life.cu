// One generation of Conway's game of life; outside of the board everything is dead.
__global__ void game_of_life(const int* in, int* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int alive = 0;
  for (int v = max(y - 1, 0); v <= min(y + 1, height - 1); ++v) {
    for (int u = max(x - 1, 0); u <= min(x + 1, width - 1); ++u) alive += in[v * width + u];
  }
  int self = in[y * width + x];
  out[y * width + x] = alive == 3 || (self && alive == 4);
}
