// CRC-32 (as in zip and Ethernet) of n messages of `length` bytes each, one message a thread, bit by bit.
__global__ void crc32(const unsigned char* messages, int length, unsigned* crc, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = 0xffffffff;
  for (int k = 0; k < length; ++k) {
    value ^= messages[i * length + k];
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) ? (value >> 1) ^ 0xedb88320 : value >> 1;
  }
  crc[i] = ~value;
}
