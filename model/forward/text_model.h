// A checkpoint run on text: ids in, logits out. The interface that everything that measures or generates text uses; it
// includes no libtorch header (model/forward/torch/torch_executor.h makes the real ones, tests have their own).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/status.h"

namespace qgpu {

class TextModel {
 public:
  virtual ~TextModel() = default;

  // Forgets every position fed so far.
  virtual void Reset() = 0;
  // Feeds ids after those fed before, in one pass (several ids: the chunked rule; one: the recurrent step); logits
  // [ids, vocabulary] as float32, row-major. kInvalidArgument for an id outside the vocabulary or more positions than
  // the model was made for.
  virtual absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t> ids) = 0;
  // The same for any number of ids in bounded memory: passes of up to 2048 positions, their logits handed on in order,
  // a block [positions, vocabulary] of at most 64 MiB (or one position) a call. Errors of Logits, before anything is
  // fed, and the first one that `sink` returns.
  using LogitsSink = std::function<absl::Status(std::span<const float> block)>;
  virtual absl::Status StreamLogits(std::span<const int64_t> ids, const LogitsSink& sink) = 0;
  // The same, but only the logits [vocabulary] behind the last id (at least one): all that writing a text needs. A
  // model whose head costs something leaves the other positions out.
  virtual absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> ids) {
    std::vector<float> last;
    QGPU_RETURN_IF_ERROR(StreamLogits(ids, [&](std::span<const float> block) {
      last.assign(block.end() - vocabulary(), block.end());
      return absl::OkStatus();
    }));
    return last;
  }
  // What Logits would refuse `ids` for, fed now: kInvalidArgument or nothing.
  virtual absl::Status CheckIds(std::span<const int64_t> ids) const = 0;
  virtual int64_t vocabulary() const = 0;
};

}  // namespace qgpu
