// A Qwen3.5 text checkpoint in Hugging Face form: config.json, and one model.safetensors or several with an index.
// Weights are mapped, so opening costs no memory beyond the page cache. Vision and multi-token-prediction tensors are
// skipped.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/checkpoint_files.h"
#include "model/base/model_shape.h"
#include "model/base/safetensors.h"

namespace qgpu {

// The shape that `directory`/config.json declares. kNotFound, kInvalidArgument, naming the file.
absl::StatusOr<ModelShape> ReadModelShape(const std::string& directory);

class Checkpoint : public TensorSource {
 public:
  // Opens `directory` and checks that every tensor of ModelTensors(shape) is there with its shape and a float type.
  // kNotFound: the directory or a file is missing. kInvalidArgument: config.json, the index or a file is malformed, a
  // tensor is missing, misshapen or in another file than the index says, or the files hold more layers than config.json
  // declares; the message names the first and counts the rest.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(const std::string& directory);

  const ModelShape& shape() const override { return shape_; }
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override;

  const std::string& directory() const { return directory_; }
  // The type most of the weights are stored in: "float32", "bfloat16" or "float16".
  std::string StoredTypeName() const;
  std::vector<std::string> WeightFiles() const;  // paths

 private:
  Checkpoint() = default;

  std::string directory_;
  ModelShape shape_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, FoundTensor> tensors_;    // by spec name
  mutable std::atomic<uint64_t> bytes_read_ = 0;  // since pages were given back
};

}  // namespace qgpu
