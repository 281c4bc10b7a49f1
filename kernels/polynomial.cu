// Evaluates one polynomial at every x by Horner's rule; c[0] is the constant term.
__global__ void polynomial(const int* c, int degree, const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int value = 0;
  for (int k = degree; k >= 0; --k) value = value * x[i] + c[k];
  y[i] = value;
}
