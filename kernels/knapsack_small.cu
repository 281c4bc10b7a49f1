// The best value that fits a knapsack: thread t knows the best for a capacity of t, and all take up an item at a time.
__global__ void knapsack_small(const int* weight, const int* value, int items, int capacity, int* best) {
  __shared__ int table[32];
  int t = threadIdx.x;
  table[t] = 0;
  __syncthreads();
  for (int i = 0; i < items; ++i) {
    int with = t >= weight[i] ? table[t - weight[i]] + value[i] : 0;
    __syncthreads();
    table[t] = max(table[t], with);
    __syncthreads();
  }
  if (t == capacity) *best = table[t];
}
