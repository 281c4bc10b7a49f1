// The executor "torch": every layer of the model by libtorch's own kernels. No libtorch header is needed to use it.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "model/forward/executor.h"
#include "model/forward/text_model.h"
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

// Any Qwen3.5 directory run on text, a dense export among them.
// float16 works where libtorch has its products on the device. Errors of Checkpoint::Open, of the device, and
// kResourceExhausted for memory.
absl::StatusOr<std::unique_ptr<TextModel>> LoadTextModel(const std::string& directory, DataType type,
                                                         const std::string& device = "cpu");
// The dense form run on text: what LoadTextModel gives of a dense export, without writing one. Its vocabulary is the
// base's followed by the machine's ids. Errors as MakeTorchExecutor.
absl::StatusOr<std::unique_ptr<TextModel>> LoadMergedTextModel(const Circuit& circuit,
                                                               const std::string& base_directory, DataType type,
                                                               const std::string& device = "cpu");

// Both of the above on one model: each goes on after everything that was fed to either, and Reset of either resets
// both. Where there is text, text and machine tokens together may have as many positions as the base has
// (max_position_embeddings): kInvalidArgument before anything is fed. Errors as MakeTorchExecutor.
struct DenseModel {
  std::unique_ptr<Executor> machine;
  std::unique_ptr<TextModel> text;
  int64_t first_machine_token = 0;  // in the text's vocabulary
};
absl::StatusOr<DenseModel> LoadDenseModel(const Circuit& circuit, const std::string& base_directory, DataType type,
                                          const std::string& device = "cpu");

}  // namespace qgpu
