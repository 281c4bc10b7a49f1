// Merges two sorted lists: every element's place is its own index and, by binary search, its place in the other list.
__global__ void merge_sorted(const int* a, int a_count, const int* b, int b_count, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a_count + b_count) return;
  bool of_a = i < a_count;
  int index = of_a ? i : i - a_count;
  int value = of_a ? a[index] : b[index];
  const int* other = of_a ? b : a;
  int low = 0, high = of_a ? b_count : a_count;
  while (low < high) {
    int middle = (low + high) / 2;
    // Of equal elements those of a come first.
    if (other[middle] < value || (!of_a && other[middle] == value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[index + low] = value;
}
