// The models on text that a worker has in memory: those that the present request needs, and no others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "model/conversation/conversation.h"
#include "model/forward/text_model.h"

namespace qgpu {

enum class ModelRole {
  kBase,      // the base by itself: what others are compared with
  kTextPath,  // text in the split form: the base's files loaded once more
  kDense,     // base and circuit merged
};

// Memory that programs can still have without swapping, as Linux estimates it; the most there is where it does not say.
int64_t FreeMemory();

class ModelPool {
 public:
  struct Key {
    ModelRole role = ModelRole::kBase;
    DataType type = DataType::kFloat32;
    auto operator<=>(const Key&) const = default;
  };

  // `free_memory`: bytes that programs can still have on this machine.
  ModelPool(std::shared_ptr<const Circuit> circuit, std::string device,
            std::function<int64_t()> free_memory = FreeMemory)
      : circuit_(std::move(circuit)), device_(std::move(device)), free_memory_(std::move(free_memory)) {}

  // The dense model that launches run on: never freed.
  void Pin(DataType type, std::shared_ptr<Conversation> dense) { pinned_ = {type, std::move(dense)}; }

  // Frees all models but those of `keys`, then loads the ones that are missing from `base_directory`, always the same
  // one, saying so on stderr. kResourceExhausted where they and `working_bytes` more do not fit into this machine's
  // free memory, which is found out before anything is loaded. Errors of loading.
  absl::Status Keep(const std::string& base_directory, const std::vector<Key>& keys, int64_t working_bytes);

  // Of the models kept. Text() of kBase and kTextPath, Dense() of kDense.
  std::shared_ptr<TextModel> Text(const Key& key) const { return text_.at(key); }
  std::shared_ptr<Conversation> Dense(DataType type) const;

 private:
  bool Has(const Key& key) const;
  absl::StatusOr<int64_t> Bytes(const std::string& base_directory, const Key& key) const;
  absl::Status Load(const std::string& base_directory, const Key& key, int64_t bytes);

  std::shared_ptr<const Circuit> circuit_;
  std::string device_;
  std::function<int64_t()> free_memory_;
  std::pair<DataType, std::shared_ptr<Conversation>> pinned_;
  std::map<Key, std::shared_ptr<TextModel>> text_;
  std::map<DataType, std::shared_ptr<Conversation>> dense_;
};

}  // namespace qgpu
