// Ways to place n queens on a board; every thread tries one column of the first row and backtracks from there.
__global__ void n_queens_count(int n, int* count) {
  int column[8];
  if (threadIdx.x >= n) return;
  column[0] = threadIdx.x;
  int found = 0;
  int row = 1;
  int next = 0;  // column to try in `row`
  while (row > 0) {
    if (row == n || next == n) {
      if (row == n) ++found;
      --row;
      next = column[row] + 1;
      continue;
    }
    bool safe = true;
    for (int k = 0; k < row; ++k) {
      int distance = abs(column[k] - next);
      if (distance == 0 || distance == row - k) safe = false;
    }
    if (safe) {
      column[row++] = next;
      next = 0;
    } else {
      ++next;
    }
  }
  atomicAdd(count, found);
}
