// Greatest common divisor by subtraction: every thread of a warp leaves the loop after a number of turns of its own.
__global__ void gcd(const int* a, const int* b, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = abs(a[i]);
  unsigned y = abs(b[i]);
  if (x != 0 && y != 0) {
    while (x != y) {
      if (x > y) {
        x -= y;
      } else {
        y -= x;
      }
    }
    out[i] = x;
  } else {
    out[i] = x + y;
  }
}
