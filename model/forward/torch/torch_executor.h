// The executor "torch": every layer of the model by libtorch's own kernels. No libtorch header is needed to use it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/forward/executor.h"
#include "model/weights/circuit.h"

namespace qgpu {

// How many threads libtorch uses, in the whole process. Until this is called, making an executor sets it: one thread
// for the split form, whose products are too small to share, and one a core for the dense form and for text.
void SetTorchThreads(int threads);

enum class ModelForm {
  kSplit,  // machine tokens run the compiled layers alone
  kDense,  // every token runs all layers, compiled and base, merged into one model
};
const char* ModelFormName(ModelForm form);  // "split", "dense"

// Loads the circuit's layers, in the dense form merged with the base checkpoint in `base_directory` (not looked at in
// the split form). The circuit is not needed afterwards. float32 or bfloat16 (kInvalidArgument for float16, whose range
// the circuit's gates exceed); `device` is "cpu", "cuda", "cuda:N" or "mps". Errors of the base's files, of
// MergedModel, and kResourceExhausted for memory. Not thread-safe.
absl::StatusOr<std::unique_ptr<Executor>> MakeTorchExecutor(const Circuit& circuit, const std::string& base_directory,
                                                            ModelForm form, DataType type,
                                                            const std::string& device = "cpu");

// A checkpoint run on text: any Qwen3.5 directory, a dense export among them.
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
  // What Logits would refuse `ids` for, fed now: kInvalidArgument or nothing.
  virtual absl::Status CheckIds(std::span<const int64_t> ids) const = 0;
  virtual int64_t vocabulary() const = 0;
};
// float16 works where libtorch has its products on the device. Errors of Checkpoint::Open, of the device, and
// kResourceExhausted for memory.
absl::StatusOr<std::unique_ptr<TextModel>> LoadTextModel(const std::string& directory, DataType type,
                                                         const std::string& device = "cpu");
// The dense form run on text: what LoadTextModel gives of a dense export, without writing one. Its vocabulary is the
// base's followed by the machine's ids. Errors as MakeTorchExecutor.
absl::StatusOr<std::unique_ptr<TextModel>> LoadMergedTextModel(const Circuit& circuit,
                                                               const std::string& base_directory, DataType type,
                                                               const std::string& device = "cpu");

}  // namespace qgpu
