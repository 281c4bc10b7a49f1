// Where every key stands in a sorted list, -1 where it does not; the first place of several.
__global__ void binary_search(const int* sorted, int count, const int* keys, int* place, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (sorted[middle] < keys[i]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  place[i] = low < count && sorted[low] == keys[i] ? low : -1;
}
