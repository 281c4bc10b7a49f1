// Sorts by counting, for every element, how many belong before it; equal ones keep their order.
__global__ void rank_sort(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int value = in[i];
  int rank = 0;
  for (int k = 0; k < n; ++k) {
    if (in[k] < value || (in[k] == value && k < i)) ++rank;
  }
  out[rank] = value;
}
