// Sorts in global memory: neighbours are exchanged, at even places and at odd ones in turn; two elements a thread.
__global__ void odd_even_sort(int* data, int n) {
  for (int phase = 0; phase < n; ++phase) {
    int i = 2 * threadIdx.x + (phase & 1);
    if (i + 1 < n && data[i] > data[i + 1]) {
      int larger = data[i];
      data[i] = data[i + 1];
      data[i + 1] = larger;
    }
    __syncthreads();
  }
}
