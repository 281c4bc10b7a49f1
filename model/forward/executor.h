// An executor computes the forward pass of the merged model token by token. Both executors ("sparse", "torch") and both
// forms ("split", "dense") sit behind this interface; it includes no libtorch header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

enum class DataType { kFloat32, kBFloat16, kFloat16 };
const char* DataTypeName(DataType type);  // "float32", ...

class Executor {
 public:
  virtual ~Executor() = default;

  // Forgets everything: recurrent states and caches are as in a new model.
  virtual void Reset() = 0;

  // Feeds machine tokens (machine ids, counted from 0) and returns the argmax over the machine's ids and, in the dense
  // form, over the whole vocabulary: a text id is returned as -1 - id. One entry for each position fed.
  virtual absl::StatusOr<std::vector<int32_t>> Feed(std::span<const int32_t> machine_ids) = 0;

  // The recurrent state of a compiled layer's head, [128 keys][128 values], row-major.
  virtual absl::StatusOr<std::vector<float>> ReadState(int layer, int head) = 0;

  // "sparse split float32", for reports.
  virtual std::string Description() const = 0;
};

}  // namespace qgpu
