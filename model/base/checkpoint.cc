#include "model/base/checkpoint.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/check.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

// Mapped pages are given back after so many bytes were read, so that reading a whole checkpoint takes no more memory.
constexpr uint64_t kBytesBetweenReleases = uint64_t{256} << 20;

}  // namespace

absl::StatusOr<ModelShape> ReadModelShape(const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory, ignored) && !std::filesystem::is_directory(directory, ignored)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a directory; the folder that holds config.json and the weights is expected", directory));
  }
  QGPU_ASSIGN_OR_RETURN(const std::string config, ReadUntrustedText(directory + "/config.json", kMaxConfigBytes));
  absl::StatusOr<ModelShape> shape = ParseModelShape(config);
  if (shape.ok()) return shape;
  return absl::Status(shape.status().code(), fmt::format("{}/{}", directory, std::string(shape.status().message())));
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& directory) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->directory_ = directory;
  QGPU_ASSIGN_OR_RETURN(checkpoint->shape_, ReadModelShape(directory));
  QGPU_ASSIGN_OR_RETURN(const WeightFileList list, ListWeightFiles(directory));
  FoundTensors found;
  std::vector<std::string> problems;
  for (const std::string& name : list.names) {
    QGPU_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(directory + "/" + name));
    if (problems.empty()) problems = AddTensorsOf(*file, name, list, found);
    checkpoint->files_.push_back(std::move(file));
  }
  if (problems.empty()) {
    TensorMatch match = MatchTensors(checkpoint->shape_, found);
    problems = std::move(match.problems);
    checkpoint->tensors_ = std::move(match.used);
  }
  if (problems.empty()) return checkpoint;
  const std::string more =
      problems.size() == 1 ? "" : fmt::format(" (and {} more; see qgpu inspect)", problems.size() - 1);
  return absl::InvalidArgumentError(fmt::format("{}: {}{}", directory, problems.front(), more));
}

absl::Status Checkpoint::ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const {
  const auto it = tensors_.find(spec.name);
  QGPU_CHECK(it != tensors_.end() && it->second.tensor->dims == spec.dims, spec.name);
  QGPU_CHECK(first_row >= 0 && rows >= 0 && first_row + rows <= spec.rows(), spec.name);
  const int64_t count = rows * spec.row_size();
  QGPU_RETURN_IF_ERROR(it->second.Read(first_row * spec.row_size(), count, out));
  const uint64_t bytes = count * StoredTypeSize(it->second.tensor->type);
  if (bytes_read_.fetch_add(bytes) + bytes >= kBytesBetweenReleases) {
    bytes_read_ = 0;
    for (const auto& file : files_) file->ReleasePages();
  }
  return absl::OkStatus();
}

std::string Checkpoint::StoredTypeName() const {
  switch (tensors_.at("embed_tokens.weight").tensor->type) {
    case StoredType::kFloat32:
      return "float32";
    case StoredType::kBFloat16:
      return "bfloat16";
    default:
      return "float16";
  }
}

std::vector<std::string> Checkpoint::WeightFiles() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

}  // namespace qgpu
