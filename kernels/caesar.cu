// Caesar's cipher on a text in place: letters move on in the alphabet by 0 to 25 places, everything else stays.
__global__ void caesar(char* text, int shift, int length) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= length) return;
  int c = text[i];
  int a = c >= 'a' ? 'a' : 'A';
  if (c < a || c >= a + 26) return;
  c += shift;
  text[i] = c >= a + 26 ? c - 26 : c;
}
