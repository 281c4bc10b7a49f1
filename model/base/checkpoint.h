// A Qwen3.5 text checkpoint in Hugging Face form: config.json, and one model.safetensors or several with an index.
// Weights are mapped, so opening costs no memory beyond the page cache. Vision and multi-token-prediction tensors are
// skipped.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/model_shape.h"
#include "model/base/safetensors.h"

namespace qgpu {

class Checkpoint : public TensorSource {
 public:
  // Opens `directory` and checks that every tensor of ModelTensors(shape) is there with its shape and a float type.
  // kNotFound: the directory or a file is missing. kInvalidArgument: config.json, the index or a file is malformed, or
  // a tensor is missing or misshapen; the message names it.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(const std::string& directory);

  const ModelShape& shape() const override { return shape_; }
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override;

  const std::string& directory() const { return directory_; }
  // The type most of the weights are stored in: "float32", "bfloat16" or "float16".
  std::string StoredTypeName() const;

 private:
  Checkpoint() = default;
  absl::Status OpenFiles();
  absl::Status BindTensors();

  std::string directory_;
  ModelShape shape_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*> tensors_;  // by spec name
};

}  // namespace qgpu
