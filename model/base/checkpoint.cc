#include "model/base/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/check.h"
#include "common/file.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = 16 << 20;
constexpr size_t kMaxIndexBytes = 256 << 20;

// The files named by a sharded checkpoint's index, in name order.
absl::StatusOr<std::set<std::string>> ShardNames(const std::string& index_path) {
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kMaxIndexBytes));
  const json index = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(index_path + ": no weight_map object");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor {} names \"{}\", which is not a file beside the index", index_path, tensor, name));
    }
    names.insert(name);
  }
  return names;
}

std::string DimsText(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& directory) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->directory_ = directory;
  QGPU_ASSIGN_OR_RETURN(const std::string config, ReadFile(directory + "/config.json", kMaxConfigBytes));
  absl::StatusOr<ModelShape> shape = ParseModelShape(config);
  if (!shape.ok()) {
    return absl::Status(shape.status().code(), fmt::format("{}/{}", directory, std::string(shape.status().message())));
  }
  checkpoint->shape_ = *std::move(shape);
  QGPU_RETURN_IF_ERROR(checkpoint->OpenFiles());
  QGPU_RETURN_IF_ERROR(checkpoint->BindTensors());
  return checkpoint;
}

absl::Status Checkpoint::OpenFiles() {
  const std::string single = directory_ + "/model.safetensors", index = single + ".index.json";
  std::set<std::string> names = {"model.safetensors"};
  std::error_code ignored;
  if (!std::filesystem::exists(single, ignored)) {
    if (!std::filesystem::exists(index, ignored)) {
      return absl::NotFoundError(
          fmt::format("{} has neither model.safetensors nor model.safetensors.index.json", directory_));
    }
    QGPU_ASSIGN_OR_RETURN(names, ShardNames(index));
  }
  for (const std::string& name : names) {
    QGPU_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(directory_ + "/" + name));
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::BindTensors() {
  std::map<std::string, const StoredTensor*> stored;
  for (const auto& file : files_) {
    for (const auto& [name, tensor] : file->tensors()) {
      if (!stored.emplace(name, &tensor).second) {
        return absl::InvalidArgumentError(fmt::format("{}: tensor {} is in two files", directory_, name));
      }
    }
  }
  const std::string prefix =
      stored.contains("model.language_model.embed_tokens.weight") ? "model.language_model." : "model.";
  for (const TensorSpec& spec : ModelTensors(shape_)) {
    const std::string name = spec.name == "lm_head.weight" ? spec.name : prefix + spec.name;
    const auto it = stored.find(name);
    if (it == stored.end()) {
      return absl::InvalidArgumentError(fmt::format("{}: tensor {} is missing", directory_, name));
    }
    if (it->second->dims != spec.dims) {
      return absl::InvalidArgumentError(fmt::format("{}: tensor {} has shape {}, config.json asks for {}", directory_,
                                                    name, DimsText(it->second->dims), DimsText(spec.dims)));
    }
    if (it->second->type == StoredType::kOther) {
      return absl::InvalidArgumentError(fmt::format("{}: tensor {} is stored as {}; F32, BF16 or F16 is supported",
                                                    directory_, name, it->second->type_name));
    }
    tensors_[spec.name] = it->second;
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const {
  const auto it = tensors_.find(spec.name);
  QGPU_CHECK(it != tensors_.end() && it->second->dims == spec.dims, spec.name);
  QGPU_CHECK(first_row >= 0 && rows >= 0 && first_row + rows <= spec.rows(), spec.name);
  ReadElements(*it->second, first_row * spec.row_size(), rows * spec.row_size(), out);
  return absl::OkStatus();
}

std::string Checkpoint::StoredTypeName() const {
  switch (tensors_.at("embed_tokens.weight")->type) {
    case StoredType::kFloat32:
      return "float32";
    case StoredType::kBFloat16:
      return "bfloat16";
    default:
      return "float16";
  }
}

}  // namespace qgpu
