// Whether all, any and which of a warp's 32 elements are positive.
__global__ void all_any_vote(const int* in, int* all, int* any, unsigned* which) {
  bool positive = in[blockIdx.x * blockDim.x + threadIdx.x] > 0;
  int every = __all_sync(0xffffffff, positive);
  int some = __any_sync(0xffffffff, positive);
  unsigned ballot = __ballot_sync(0xffffffff, positive);
  if (threadIdx.x == 0) {
    all[blockIdx.x] = every;
    any[blockIdx.x] = some;
    which[blockIdx.x] = ballot;
  }
}
