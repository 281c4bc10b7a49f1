// Where a pattern occurs in a text, one place a thread: how often, and where first (in `first` before: INT_MAX).
__global__ void string_match(const char* text, int length, const char* pattern, int pattern_length, int* count,
                             int* first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + pattern_length > length) return;
  for (int k = 0; k < pattern_length; ++k) {
    if (text[i + k] != pattern[k]) return;
  }
  atomicAdd(count, 1);
  atomicMin(first, i);
}
