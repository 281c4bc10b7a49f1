// The safetensors file format (https://github.com/huggingface/safetensors): a 64-bit little-endian header length, a
// JSON header that gives every tensor its type, shape and byte range, and the bytes. Files are mapped, not read; their
// headers are not trusted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/base/mapped_file.h"
#include "model/base/model_shape.h"

namespace qgpu {

enum class StoredType { kFloat32, kBFloat16, kFloat16, kOther };

// One tensor of a mapped file; valid while the file is. Its bytes are touched by SafetensorsFile::Read only.
struct StoredTensor {
  StoredType type = StoredType::kOther;
  std::string type_name;  // as the header spells it
  std::vector<int64_t> dims;
  const char* bytes = nullptr;
  uint64_t size = 0;  // in bytes; equals elements times element size (checked)
};

class SafetensorsFile {
 public:
  // Maps the file and checks its whole header: kInvalidArgument names the file, the tensor and what is wrong with it
  // (a size or offset outside the file, a byte range that does not fit type and shape, overlapping or uncovered bytes,
  // a name given twice). kNotFound, kPermissionDenied, kUnavailable: the file cannot be opened or read.
  static absl::StatusOr<std::unique_ptr<const SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  uint64_t size() const { return file_->size(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // `count` elements from element `first` of one of its tensors, of type float32, bfloat16 or float16, as float32. The
  // range must lie in the tensor. kUnavailable: the file has become shorter (out then holds anything). Thread-safe.
  absl::Status Read(const StoredTensor& tensor, int64_t first, int64_t count, float* out) const;
  // Gives back the memory of what was read so far; it stays in the page cache, and is mapped again when read again.
  void ReleasePages() const { file_->ReleasePages(); }

 private:
  SafetensorsFile() = default;

  std::unique_ptr<const MappedFile> file_;
  std::map<std::string, StoredTensor> tensors_;
};

// The header check by itself, over a whole file's bytes (what Open maps; what a fuzzer calls). The result points into
// `bytes`.
absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensors(std::string_view bytes, const std::string& path);

// Writes one file, tensor by tensor, in the order declared, and hashes it on the way.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<int64_t> dims;
    StoredType type = StoredType::kFloat32;  // float32 or bfloat16
  };

  // Creates (or truncates) the file and writes its header. Errors name the path; kResourceExhausted for a full disk.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                                   const std::vector<Tensor>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next `count` elements of the current tensor, rounded to its type. They must not reach into the next
  // tensor.
  absl::Status Append(const float* values, int64_t count);
  // Flushes to disk and closes; the SHA-256 of the file. Every tensor must be complete.
  absl::StatusOr<std::string> Finish();
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  struct Sink;
  SafetensorsWriter();
  absl::Status Write(const void* data, size_t size);

  std::unique_ptr<Sink> sink_;
  std::string path_;
  std::vector<Tensor> tensors_;
  size_t current_ = 0;        // tensor being written
  int64_t current_left_ = 0;  // elements of it still to come
  uint64_t bytes_written_ = 0;
};

// Copies whole tensors of `source` (a subset of ModelTensors) into one file, in blocks of at most 16 MiB; the file's
// SHA-256. Names get the prefix "model." except the head.
absl::StatusOr<std::string> WriteTensors(const TensorSource& source, const std::vector<TensorSpec>& specs,
                                         StoredType type, const std::string& path);

// "model.layers.0...", "lm_head.weight": a tensor's name in a file of a text-only model.
std::string FileTensorName(const std::string& spec_name);

int64_t StoredTypeSize(StoredType type);

}  // namespace qgpu
