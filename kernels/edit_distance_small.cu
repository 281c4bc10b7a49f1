// Levenshtein's distance of words of up to 7 letters: thread t has row t of the table, diagonals go one after another.
__global__ void edit_distance_small(const char* a, int a_length, const char* b, int b_length, int* out) {
  __shared__ int table[8][8];
  int row = threadIdx.x;
  for (int step = 0; step <= a_length + b_length; ++step) {
    int column = step - row;
    if (row <= a_length && column >= 0 && column <= b_length) {
      int distance = row + column;
      if (row > 0 && column > 0) {
        int changed = table[row - 1][column - 1] + (a[row - 1] != b[column - 1]);
        distance = min(changed, min(table[row - 1][column], table[row][column - 1]) + 1);
      }
      table[row][column] = distance;
    }
    __syncthreads();
  }
  if (row == 0) *out = table[a_length][b_length];
}
