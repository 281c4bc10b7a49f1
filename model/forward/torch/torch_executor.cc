#include "model/forward/torch/torch_executor.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"
#include "model/base/checkpoint.h"
#include "model/forward/torch/qwen_model.h"
#include "model/merge/merged_model.h"

namespace qgpu {
namespace {

using at::Tensor;

// Positions of one pass: enough for the matrix products to be efficient, few enough for the logits to be small.
constexpr size_t kPassPositions = 512;

std::atomic<bool> threads_are_set = false;

void SetDefaultThreads(int threads) {
  if (!threads_are_set) at::set_num_threads(threads);
}

// Cores, or fewer where OpenMP is told to use fewer: libtorch's kernels leave out work if they are granted fewer
// threads than they ask for.
int CoreCount() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const char* limit = std::getenv("OMP_THREAD_LIMIT");
  const int allowed = limit == nullptr ? 0 : std::atoi(limit);
  return allowed > 0 ? std::min(cores, allowed) : cores;
}

absl::Status TorchError(const std::exception& error) {
  return absl::InternalError(fmt::format("libtorch failed: {}", error.what()));
}

class TorchExecutor : public Executor {
 public:
  TorchExecutor(std::unique_ptr<QwenModel> model, int64_t first_machine_token, std::vector<int32_t> layer_heads,
                std::string description)
      : model_(std::move(model)),
        first_machine_token_(first_machine_token),
        layer_heads_(std::move(layer_heads)),
        description_(std::move(description)) {}

  void Reset() override { model_->Reset(); }

  absl::StatusOr<std::vector<int32_t>> Feed(std::span<const int32_t> machine_ids) override {
    const int64_t machine_vocabulary = model_->vocabulary() - first_machine_token_;
    for (int32_t id : machine_ids) {
      if (id >= 0 && id < machine_vocabulary) continue;
      return absl::InvalidArgumentError(fmt::format("machine id {} is outside 0 to {}", id, machine_vocabulary - 1));
    }
    std::vector<int32_t> next;
    try {
      const c10::InferenceMode no_gradients;
      for (size_t at = 0; at < machine_ids.size(); at += kPassPositions) {
        const auto pass = machine_ids.subspan(at, std::min(kPassPositions, machine_ids.size() - at));
        Tensor ids = at::empty({static_cast<int64_t>(pass.size())}, at::kLong);
        for (size_t i = 0; i < pass.size(); ++i) ids.data_ptr<int64_t>()[i] = first_machine_token_ + pass[i];
        const Tensor best = model_->Logits(model_->Forward(ids)).argmax(-1).to(at::kCPU);
        for (size_t i = 0; i < pass.size(); ++i) {
          const int64_t id = best.data_ptr<int64_t>()[i] - first_machine_token_;
          next.push_back(static_cast<int32_t>(id >= 0 ? id : -1 - (id + first_machine_token_)));
        }
      }
    } catch (const std::exception& error) {
      return TorchError(error);
    }
    return next;
  }

  absl::StatusOr<std::vector<float>> ReadState(int layer, int head) override {
    if (layer < 0 || layer >= static_cast<int>(layer_heads_.size()) || head < 0 || head >= layer_heads_[layer]) {
      return absl::InvalidArgumentError(fmt::format("the circuit has no head {} in layer {}", head, layer));
    }
    try {
      const Tensor state = model_->State(layer).select(0, head).to(at::kCPU).contiguous();
      return std::vector<float>(state.data_ptr<float>(), state.data_ptr<float>() + state.numel());
    } catch (const std::exception& error) {
      return TorchError(error);
    }
  }

  std::string Description() const override { return description_; }

 private:
  std::unique_ptr<QwenModel> model_;
  int64_t first_machine_token_;
  std::vector<int32_t> layer_heads_;  // by compiled layer
  std::string description_;
};

class TorchTextModel : public TextModel {
 public:
  TorchTextModel(std::unique_ptr<QwenModel> model, int64_t max_positions)
      : model_(std::move(model)), max_positions_(max_positions) {}

  void Reset() override { model_->Reset(); }
  int64_t vocabulary() const override { return model_->vocabulary(); }

  absl::Status CheckIds(std::span<const int64_t> ids) const override {
    for (int64_t id : ids) {
      if (id >= 0 && id < vocabulary()) continue;
      return absl::InvalidArgumentError(fmt::format("token id {} is outside 0 to {}", id, vocabulary() - 1));
    }
    const int64_t end = model_->positions() + static_cast<int64_t>(ids.size());
    if (end <= max_positions_) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{} positions are more than the model's {} (max_position_embeddings); feed fewer", end, max_positions_));
  }

  absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t> ids) override {
    QGPU_RETURN_IF_ERROR(CheckIds(ids));
    if (ids.empty()) return std::vector<float>();
    std::vector<float> logits;
    logits.reserve(ids.size() * vocabulary());
    QGPU_RETURN_IF_ERROR(Pass(ids, [&logits](std::span<const float> block) {
      logits.insert(logits.end(), block.begin(), block.end());
      return absl::OkStatus();
    }));
    return logits;
  }

  absl::Status StreamLogits(std::span<const int64_t> ids, const LogitsSink& sink) override {
    constexpr size_t kPassLength = 2048;
    QGPU_RETURN_IF_ERROR(CheckIds(ids));
    for (size_t at = 0; at < ids.size(); at += kPassLength) {
      QGPU_RETURN_IF_ERROR(Pass(ids.subspan(at, std::min(kPassLength, ids.size() - at)), sink));
    }
    return absl::OkStatus();
  }

 private:
  // One forward pass; the head's product a block of positions at a time.
  absl::Status Pass(std::span<const int64_t> ids, const LogitsSink& sink) {
    constexpr int64_t kBlockElements = (64 << 20) / sizeof(float);
    const int64_t step = std::max<int64_t>(1, kBlockElements / vocabulary());
    try {
      const c10::InferenceMode no_gradients;
      const Tensor input = at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong);
      const Tensor normed = model_->Forward(input);
      for (int64_t at = 0; at < normed.size(0); at += step) {
        const Tensor part = normed.slice(0, at, std::min(at + step, normed.size(0)));
        const Tensor logits = model_->Logits(part).to(at::kCPU, at::kFloat).contiguous();
        QGPU_RETURN_IF_ERROR(sink({logits.data_ptr<float>(), static_cast<size_t>(logits.numel())}));
      }
    } catch (const std::exception& error) {
      return TorchError(error);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<QwenModel> model_;
  int64_t max_positions_;
};

}  // namespace

void SetTorchThreads(int threads) {
  threads_are_set = true;
  at::set_num_threads(threads);
}

const char* ModelFormName(ModelForm form) { return form == ModelForm::kSplit ? "split" : "dense"; }

absl::StatusOr<std::unique_ptr<Executor>> MakeTorchExecutor(const Circuit& circuit, const std::string& base_directory,
                                                            ModelForm form, DataType type, const std::string& device) {
  if (type == DataType::kFloat16) {
    return absl::InvalidArgumentError("the circuit does not run in float16; use float32 or bfloat16");
  }
  QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, ParseDevice(device));
  SetDefaultThreads(form == ModelForm::kDense ? CoreCount() : 1);
  std::vector<int32_t> layer_heads;
  for (const CircuitLayer& layer : circuit.layers) layer_heads.push_back(layer.heads);
  std::string description = fmt::format("torch {} {}", ModelFormName(form), DataTypeName(type));
  if (device != "cpu") description += " " + device;

  std::unique_ptr<const MergedModel> merged;
  std::unique_ptr<const TensorSource> compiled;
  int64_t first_machine_token = 0;
  if (form == ModelForm::kDense) {
    QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
    QGPU_ASSIGN_OR_RETURN(merged, MergedModel::Create(circuit, std::move(base), Padding::kNone));
    first_machine_token = merged->first_machine_token();
  } else {
    compiled = std::make_unique<CompiledModel>(circuit);
  }
  const TensorSource& source = merged ? static_cast<const TensorSource&>(*merged) : *compiled;
  QGPU_ASSIGN_OR_RETURN(std::unique_ptr<QwenModel> model, QwenModel::Load(source, type, torch_device));
  return std::make_unique<TorchExecutor>(std::move(model), first_machine_token, std::move(layer_heads), description);
}

absl::StatusOr<std::unique_ptr<TextModel>> LoadTextModel(const std::string& directory, DataType type,
                                                         const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, ParseDevice(device));
  SetDefaultThreads(CoreCount());
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(directory));
  QGPU_ASSIGN_OR_RETURN(std::unique_ptr<QwenModel> model, QwenModel::Load(*checkpoint, type, torch_device));
  return std::make_unique<TorchTextModel>(std::move(model), checkpoint->shape().max_positions);
}

absl::StatusOr<std::unique_ptr<TextModel>> LoadMergedTextModel(const Circuit& circuit,
                                                               const std::string& base_directory, DataType type,
                                                               const std::string& device) {
  if (type == DataType::kFloat16) {
    return absl::InvalidArgumentError("the circuit does not run in float16; use float32 or bfloat16");
  }
  QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, ParseDevice(device));
  SetDefaultThreads(CoreCount());
  QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
  QGPU_ASSIGN_OR_RETURN(const auto merged, MergedModel::Create(circuit, std::move(base), Padding::kNone));
  QGPU_ASSIGN_OR_RETURN(std::unique_ptr<QwenModel> model, QwenModel::Load(*merged, type, torch_device));
  return std::make_unique<TorchTextModel>(std::move(model), merged->shape().max_positions);
}

}  // namespace qgpu
