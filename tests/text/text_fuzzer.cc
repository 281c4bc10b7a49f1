// For libFuzzer: the first byte says who reads the rest.
#include <cstdint>

#include "tests/text/text_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) qgpu::FuzzTokenizerFile(rest);
  if (data[0] % 3 == 1) qgpu::FuzzText(rest);
  if (data[0] % 3 == 2) qgpu::FuzzChatTemplate(rest);
  return 0;
}
