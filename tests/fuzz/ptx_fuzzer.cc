// libFuzzer's entry: configure with clang and -DQGPU_FUZZ=ON, then
//   build-fuzz/tests/ptx_fuzzer -max_len=8192 -timeout=10 CORPUS
// where CORPUS is a folder of .ptx files (qgpu disasm --ptx writes them).
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/ptx_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qgpu::FuzzPtx(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
