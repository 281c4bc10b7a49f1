// Keeps the elements that are not zero, in their order; one warp, which finds every place from a ballot.
__global__ void stream_compact(const int* in, int* out, int* count, int n) {
  int lane = threadIdx.x;
  int value = lane < n ? in[lane] : 0;
  unsigned kept = __ballot_sync(0xffffffff, value != 0);
  if (value != 0) out[__popc(kept & ((1u << lane) - 1))] = value;
  if (lane == 0) *count = __popc(kept);
}
