// For libFuzzer: the first byte says what the rest is, a config.json or a safetensors file. What is accepted must be
// safe to walk. Configure with clang and -DQGPU_FUZZ=ON, then: build-fuzz/tests/base_fuzzer CORPUS
#include <cstddef>
#include <cstdint>

#include "common/check.h"
#include "model/base/model_shape.h"
#include "model/base/safetensors.h"

namespace qgpu {
namespace {

void FuzzConfig(std::string_view text) {
  const absl::StatusOr<ModelShape> shape = ParseModelShape(text);
  if (!shape.ok()) {
    QGPU_CHECK(!shape.status().message().empty(), "no message");
    return;
  }
  for (const TensorSpec& spec : ModelTensors(*shape)) QGPU_CHECK(spec.elements() > 0, spec.name);
  // What we write of it is read as the same.
  QGPU_CHECK(ParseModelShape(ModelShapeToConfig(*shape, "float32", -1)).value() == *shape, "another shape");
}

void FuzzSafetensors(std::string_view bytes) {
  const auto tensors = ParseSafetensors(bytes, "file");
  if (!tensors.ok()) {
    QGPU_CHECK(!tensors.status().message().empty(), "no message");
    return;
  }
  uint64_t total = 0;
  for (const auto& [name, tensor] : *tensors) {
    QGPU_CHECK(tensor.bytes >= bytes.data() && tensor.size <= bytes.size(), name);
    QGPU_CHECK(tensor.bytes + tensor.size <= bytes.data() + bytes.size(), name);
    total += tensor.size;
  }
  QGPU_CHECK(total <= bytes.size(), "tensors overlap");
}

}  // namespace
}  // namespace qgpu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? qgpu::FuzzConfig(rest) : qgpu::FuzzSafetensors(rest);
  return 0;
}
