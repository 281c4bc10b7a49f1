// The Qwen3.5 text model in libtorch: a base checkpoint, the merged model and the compiled layers alone all run through
// this one class, told apart only by the tensors they are made of. Every rounding to the compute type is where the
// public transformers library has it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "common/status.h"
#include "model/base/model_shape.h"
#include "model/forward/executor.h"

namespace qgpu {

// "cpu", "cuda", "cuda:1" or "mps"; kInvalidArgument for another name, kFailedPrecondition where libtorch has no such
// device here.
absl::StatusOr<at::Device> ParseDevice(const std::string& name);
at::ScalarType TorchType(DataType type);

class QwenModel {
 public:
  // Reads all tensors of `source`, converted to `type`, onto `device`. Errors of the source; kResourceExhausted when
  // the device's memory does not suffice. Throws nothing.
  static absl::StatusOr<std::unique_ptr<QwenModel>> Load(const TensorSource& source, DataType type, at::Device device);
  ~QwenModel();

  // Forgets every position fed so far.
  void Reset();
  // Feeds token ids (int64, [n], n >= 1, in range) after those fed before; the last norm's output [n, hidden]. One
  // token runs the recurrent rule, more run in chunks. May throw c10::Error.
  at::Tensor Forward(const at::Tensor& ids);
  // [n, vocabulary], in the compute type.
  at::Tensor Logits(const at::Tensor& normed) const;
  // The residual [n, hidden] before layer `layer` of the last Forward, kept when `keep_residuals` is set; the last
  // entry is the one after all layers.
  bool keep_residuals = false;
  const std::vector<at::Tensor>& residuals() const { return residuals_; }

  // State of a linear attention layer, float32 [value heads, key dim, value dim]; zeros before the first position.
  // Undefined for a layer without linear heads.
  at::Tensor State(int64_t layer) const;
  int64_t positions() const { return positions_; }
  int64_t vocabulary() const { return vocabulary_; }
  at::Device device() const { return device_; }

 private:
  class Layer;
  class LinearAttention;
  class FullAttention;
  struct Context;

  QwenModel(at::ScalarType type, at::Device device);

  at::ScalarType type_;
  at::Device device_;
  int64_t vocabulary_ = 0;
  int64_t positions_ = 0;
  double norm_eps_ = 0;
  double norm_width_ = 0;
  at::Tensor embedding_, head_;
  at::Tensor final_norm_;         // 1 + w, float32
  at::Tensor inverse_frequency_;  // rotary, float32 [rotary / 2]
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<at::Tensor> residuals_;
};

}  // namespace qgpu
