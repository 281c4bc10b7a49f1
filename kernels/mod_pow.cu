// base ^ exponent modulo m by squaring, for a modulus of at most 2^16, so that products fit 32 bits.
__global__ void mod_pow(const unsigned* base, const unsigned* exponent, unsigned modulus, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned result = 1 % modulus;
  unsigned power = base[i] % modulus;
  for (unsigned e = exponent[i]; e != 0; e >>= 1) {
    if (e & 1) result = result * power % modulus;
    power = power * power % modulus;
  }
  out[i] = result;
}
