#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/check.h"
#include "model/base/safetensors.h"
#include "model/base/stored_type.h"
#include "nlohmann/json.hpp"
#include "openssl/evp.h"

namespace qgpu {
namespace {

absl::Status WriteError(const std::string& path) {
  const int error = errno;
  const std::string message = fmt::format("cannot write {}: {}", path, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return absl::ResourceExhaustedError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::UnavailableError(message);
}

int64_t ElementCount(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

}  // namespace

// The open file and the running digest of what went into it.
struct SafetensorsWriter::Sink {
  int fd = -1;
  EVP_MD_CTX* digest = EVP_MD_CTX_new();

  Sink() { QGPU_CHECK(EVP_DigestInit_ex(digest, EVP_sha256(), nullptr) == 1, "SHA-256 is unavailable"); }
  ~Sink() {
    EVP_MD_CTX_free(digest);
    if (fd >= 0) close(fd);
  }
};

SafetensorsWriter::SafetensorsWriter() : sink_(std::make_unique<Sink>()) {}
SafetensorsWriter::~SafetensorsWriter() = default;

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(const std::string& path,
                                                                             const std::vector<Tensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    QGPU_CHECK(tensor.type == StoredType::kFloat32 || tensor.type == StoredType::kBFloat16, tensor.name);
    const uint64_t end = offset + ElementCount(tensor.dims) * StoredTypeSize(tensor.type);
    header[tensor.name] = {{"dtype", tensor.type == StoredType::kFloat32 ? "F32" : "BF16"},
                           {"shape", tensor.dims},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned

  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter);
  writer->path_ = path;
  writer->tensors_ = tensors;
  writer->current_left_ = tensors.empty() ? 0 : ElementCount(tensors[0].dims);
  writer->sink_->fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer->sink_->fd < 0) return WriteError(path);
  const uint64_t header_size = text.size();
  QGPU_RETURN_IF_ERROR(writer->Write(&header_size, sizeof(header_size)));
  QGPU_RETURN_IF_ERROR(writer->Write(text.data(), text.size()));
  return writer;
}

absl::Status SafetensorsWriter::Write(const void* data, size_t size) {
  QGPU_CHECK(EVP_DigestUpdate(sink_->digest, data, size) == 1, path_);
  bytes_written_ += size;
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = write(sink_->fd, next, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return WriteError(path_);
    next += put;
    size -= put;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(const float* values, int64_t count) {
  QGPU_CHECK(current_ < tensors_.size() && count <= current_left_, path_);
  if (tensors_[current_].type == StoredType::kFloat32) {
    QGPU_RETURN_IF_ERROR(Write(values, count * sizeof(float)));
  } else {
    std::vector<uint16_t> rounded(count);
    std::transform(values, values + count, rounded.begin(), FloatToBFloat16);
    QGPU_RETURN_IF_ERROR(Write(rounded.data(), count * sizeof(uint16_t)));
  }
  current_left_ -= count;
  while (current_left_ == 0 && ++current_ < tensors_.size()) current_left_ = ElementCount(tensors_[current_].dims);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SafetensorsWriter::Finish() {
  QGPU_CHECK(current_ == tensors_.size(), path_ + ": a tensor is incomplete");
  if (fsync(sink_->fd) != 0 || close(std::exchange(sink_->fd, -1)) != 0) return WriteError(path_);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  QGPU_CHECK(EVP_DigestFinal_ex(sink_->digest, digest, &size) == 1, path_);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

absl::StatusOr<std::string> WriteTensors(const TensorSource& source, const std::vector<TensorSpec>& specs,
                                         StoredType type, const std::string& path) {
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const TensorSpec& spec : specs) tensors.push_back({FileTensorName(spec.name), spec.dims, type});
  QGPU_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer, SafetensorsWriter::Create(path, tensors));
  constexpr int64_t kBlockElements = (16 << 20) / sizeof(float);
  std::vector<float> block;
  for (const TensorSpec& spec : specs) {
    const int64_t rows_per_block = std::max<int64_t>(1, kBlockElements / spec.row_size());
    for (int64_t row = 0; row < spec.rows(); row += rows_per_block) {
      const int64_t rows = std::min(rows_per_block, spec.rows() - row);
      block.resize(rows * spec.row_size());
      QGPU_RETURN_IF_ERROR(source.ReadRows(spec, row, rows, block.data()));
      QGPU_RETURN_IF_ERROR(writer->Append(block.data(), block.size()));
    }
  }
  return writer->Finish();
}

}  // namespace qgpu
