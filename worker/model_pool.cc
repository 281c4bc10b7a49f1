#include "worker/model_pool.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <new>
#include <utility>

#include "model/base/checkpoint.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/merged_model.h"

namespace qgpu {
namespace {

std::string Describe(const ModelPool::Key& key) {
  const char* name = key.role == ModelRole::kDense ? "the dense merged model" : "the base";
  return fmt::format("{} in {}", name, DataTypeName(key.type));
}

double Gigabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

int64_t BytesOf(const TensorSource& source, DataType type) {
  int64_t elements = 0;
  for (const TensorSpec& tensor : source.tensors()) elements += tensor.elements();
  return elements * (type == DataType::kFloat32 ? 4 : 2);
}

}  // namespace

int64_t FreeMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

std::shared_ptr<Conversation> ModelPool::Dense(DataType type) const {
  return pinned_.second && pinned_.first == type ? pinned_.second : dense_.at(type);
}

bool ModelPool::Has(const Key& key) const {
  if (key.role != ModelRole::kDense) return text_.contains(key);
  return dense_.contains(key.type) || (pinned_.second && pinned_.first == key.type);
}

absl::StatusOr<int64_t> ModelPool::Bytes(const std::string& base_directory, const Key& key) const {
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
  if (key.role != ModelRole::kDense) return BytesOf(*base, key.type);
  QGPU_ASSIGN_OR_RETURN(const auto merged, MergedModel::Create(*circuit_, base, Padding::kNone));
  return BytesOf(*merged, key.type);
}

absl::Status ModelPool::Load(const std::string& base_directory, const Key& key, int64_t bytes) {
  fmt::print(stderr, "qgpu-worker: loading {} ({:.2f} GB)\n", Describe(key), Gigabytes(bytes));
  try {
    if (key.role == ModelRole::kDense) {
      QGPU_ASSIGN_OR_RETURN(dense_[key.type], MakeDenseConversation(circuit_, base_directory, key.type, device_));
    } else {
      QGPU_ASSIGN_OR_RETURN(text_[key], LoadTextModel(base_directory, key.type, device_));
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory");
  }
  return absl::OkStatus();
}

absl::Status ModelPool::Keep(const std::string& base_directory, const std::vector<Key>& keys, int64_t working_bytes) {
  const auto is_needed = [&keys](const Key& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  std::erase_if(text_, [&](const auto& entry) { return !is_needed(entry.first); });
  std::erase_if(dense_, [&](const auto& entry) { return !is_needed({ModelRole::kDense, entry.first}); });
  std::vector<std::pair<Key, int64_t>> missing;
  int64_t needed = working_bytes;
  std::string names;
  for (const Key& key : keys) {
    if (Has(key)) continue;
    QGPU_ASSIGN_OR_RETURN(const int64_t bytes, Bytes(base_directory, key));
    missing.emplace_back(key, bytes);
    needed += bytes;
    names += (names.empty() ? "" : ", ") + Describe(key);
  }
  const int64_t free = free_memory_();
  if (!missing.empty() && device_ == "cpu" && needed > free) {
    return absl::ResourceExhaustedError(
        fmt::format("{} and what is computed with them take {:.2f} GB, and this machine has {:.2f} GB of free memory; "
                    "free some, use a smaller chunk or bfloat16, or another machine",
                    names, Gigabytes(needed), Gigabytes(free)));
  }
  for (const auto& [key, bytes] : missing) {
    const absl::Status loaded = Load(base_directory, key, bytes);
    if (loaded.ok()) continue;
    text_.erase(key);
    if (key.role == ModelRole::kDense) dense_.erase(key.type);
    if (!absl::IsResourceExhausted(loaded)) return loaded;
    return absl::ResourceExhaustedError(
        fmt::format("loading {} ({:.2f} GB): {}; free memory, use bfloat16, or another machine", Describe(key),
                    Gigabytes(bytes), std::string(loaded.message())));
  }
  return absl::OkStatus();
}

}  // namespace qgpu
