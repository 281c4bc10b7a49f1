// A neural network of two inputs, two hidden neurons and one output, in integers; a neuron's bias follows its weights.
__device__ int neuron(const int* weights, int a, int b) { return weights[0] * a + weights[1] * b + weights[2]; }

__global__ void xor_network(const int* inputs, const int* weights, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = inputs[2 * i], b = inputs[2 * i + 1];
  int first = max(neuron(weights, a, b), 0);
  int second = max(neuron(weights + 3, a, b), 0);
  out[i] = neuron(weights + 6, first, second);
}
