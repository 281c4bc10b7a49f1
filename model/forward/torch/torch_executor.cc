#include "model/forward/torch/torch_executor.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
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
  const std::string what = error.what();
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         what.find("not enough memory") != std::string::npos ||
                         what.find("can't allocate memory") != std::string::npos;
  if (!no_memory) return absl::InternalError(fmt::format("libtorch failed: {}", what));
  return absl::ResourceExhaustedError(
      fmt::format("not enough memory for the forward pass (feed fewer positions, or use bfloat16): {}", what));
}

// A model with what its views have to know of each other.
struct FedModel {
  std::unique_ptr<QwenModel> model;
  int64_t max_positions = std::numeric_limits<int64_t>::max();
  bool has_text = false;  // since the last Reset

  void Reset() {
    model->Reset();
    has_text = false;
  }
  absl::Status CheckPositions(size_t count) const {
    const int64_t end = model->positions() + static_cast<int64_t>(count);
    if (end <= max_positions) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{} positions are more than the model's {} (max_position_embeddings); feed fewer", end, max_positions));
  }
};

class TorchExecutor : public Executor {
 public:
  TorchExecutor(std::shared_ptr<FedModel> fed, int64_t first_machine_token, std::vector<int32_t> layer_heads,
                std::string description)
      : fed_(std::move(fed)),
        model_(*fed_->model),
        first_machine_token_(first_machine_token),
        layer_heads_(std::move(layer_heads)),
        description_(std::move(description)) {}

  void Reset() override { fed_->Reset(); }

  absl::StatusOr<std::vector<int32_t>> Feed(std::span<const int32_t> machine_ids) override {
    const int64_t machine_vocabulary = model_.vocabulary() - first_machine_token_;
    for (int32_t id : machine_ids) {
      if (id >= 0 && id < machine_vocabulary) continue;
      return absl::InvalidArgumentError(fmt::format("machine id {} is outside 0 to {}", id, machine_vocabulary - 1));
    }
    // A launch alone may have any number of tokens: where it has no text before it, no place matters.
    if (fed_->has_text) QGPU_RETURN_IF_ERROR(fed_->CheckPositions(machine_ids.size()));
    std::vector<int32_t> next;
    try {
      const c10::InferenceMode no_gradients;
      for (size_t at = 0; at < machine_ids.size(); at += kPassPositions) {
        const auto pass = machine_ids.subspan(at, std::min(kPassPositions, machine_ids.size() - at));
        Tensor ids = at::empty({static_cast<int64_t>(pass.size())}, at::kLong);
        for (size_t i = 0; i < pass.size(); ++i) ids.data_ptr<int64_t>()[i] = first_machine_token_ + pass[i];
        const Tensor best = model_.Logits(model_.Forward(ids)).argmax(-1).to(at::kCPU);
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
      const Tensor state = model_.State(layer).select(0, head).to(at::kCPU).contiguous();
      return std::vector<float>(state.data_ptr<float>(), state.data_ptr<float>() + state.numel());
    } catch (const std::exception& error) {
      return TorchError(error);
    }
  }

  std::string Description() const override { return description_; }

 private:
  std::shared_ptr<FedModel> fed_;
  QwenModel& model_;
  int64_t first_machine_token_;
  std::vector<int32_t> layer_heads_;  // by compiled layer
  std::string description_;
};

class TorchTextModel : public TextModel {
 public:
  explicit TorchTextModel(std::shared_ptr<FedModel> fed) : fed_(std::move(fed)), model_(*fed_->model) {}

  void Reset() override { fed_->Reset(); }
  int64_t vocabulary() const override { return model_.vocabulary(); }

  absl::Status CheckIds(std::span<const int64_t> ids) const override {
    for (int64_t id : ids) {
      if (id >= 0 && id < vocabulary()) continue;
      return absl::InvalidArgumentError(fmt::format("token id {} is outside 0 to {}", id, vocabulary() - 1));
    }
    return fed_->CheckPositions(ids.size());
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
    QGPU_RETURN_IF_ERROR(CheckIds(ids));
    for (size_t at = 0; at < ids.size(); at += kPassLength) {
      QGPU_RETURN_IF_ERROR(Pass(ids.subspan(at, std::min(kPassLength, ids.size() - at)), sink));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> NextLogits(std::span<const int64_t> ids) override {
    QGPU_RETURN_IF_ERROR(CheckIds(ids));
    if (ids.empty()) return absl::InvalidArgumentError("no ids to feed");
    std::vector<float> logits;
    for (size_t at = 0; at < ids.size(); at += kPassLength) {
      const auto pass = ids.subspan(at, std::min(kPassLength, ids.size() - at));
      const bool is_last = at + pass.size() == ids.size();
      QGPU_RETURN_IF_ERROR(Pass(
          pass,
          [&logits](std::span<const float> block) {
            logits.assign(block.begin(), block.end());
            return absl::OkStatus();
          },
          /*first_row=*/static_cast<int64_t>(is_last ? pass.size() - 1 : pass.size())));
    }
    return logits;
  }

 private:
  static constexpr size_t kPassLength = 2048;

  // One forward pass; the head's product a block of positions at a time, from position `first_row` of the pass on.
  absl::Status Pass(std::span<const int64_t> ids, const LogitsSink& sink, int64_t first_row = 0) {
    constexpr int64_t kBlockElements = (64 << 20) / sizeof(float);
    const int64_t step = std::max<int64_t>(1, kBlockElements / vocabulary());
    try {
      const c10::InferenceMode no_gradients;
      const Tensor input = at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong);
      fed_->has_text = true;
      const Tensor normed = model_.Forward(input);
      for (int64_t at = first_row; at < normed.size(0); at += step) {
        const Tensor part = normed.slice(0, at, std::min(at + step, normed.size(0)));
        const Tensor logits = model_.Logits(part).to(at::kCPU, at::kFloat).contiguous();
        QGPU_RETURN_IF_ERROR(sink({logits.data_ptr<float>(), static_cast<size_t>(logits.numel())}));
      }
    } catch (const std::exception& error) {
      return TorchError(error);
    }
    return absl::OkStatus();
  }

  std::shared_ptr<FedModel> fed_;
  QwenModel& model_;
};

// What the circuit runs in.
absl::StatusOr<at::Device> CheckedDevice(DataType type, const std::string& device) {
  if (type == DataType::kFloat16) {
    return absl::InvalidArgumentError("the circuit does not run in float16; use float32 or bfloat16");
  }
  return ParseDevice(device);
}

std::vector<int32_t> LayerHeads(const Circuit& circuit) {
  std::vector<int32_t> heads;
  for (const CircuitLayer& layer : circuit.layers) heads.push_back(layer.heads);
  return heads;
}

std::string Describe(ModelForm form, DataType type, const std::string& device) {
  return fmt::format("torch {} {}{}", ModelFormName(form), DataTypeName(type), device == "cpu" ? "" : " " + device);
}

struct LoadedDense {
  std::shared_ptr<FedModel> fed = std::make_shared<FedModel>();
  int64_t first_machine_token = 0;
};
absl::StatusOr<LoadedDense> LoadDense(const Circuit& circuit, const std::string& base_directory, DataType type,
                                      const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, CheckedDevice(type, device));
  SetDefaultThreads(CoreCount());
  QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
  QGPU_ASSIGN_OR_RETURN(const auto merged, MergedModel::Create(circuit, std::move(base), Padding::kNone));
  LoadedDense loaded;
  QGPU_ASSIGN_OR_RETURN(loaded.fed->model, QwenModel::Load(*merged, type, torch_device));
  loaded.first_machine_token = merged->first_machine_token();
  loaded.fed->max_positions = merged->shape().max_positions;
  return loaded;
}

}  // namespace

void SetTorchThreads(int threads) {
  threads_are_set = true;
  at::set_num_threads(threads);
}

const char* ModelFormName(ModelForm form) { return form == ModelForm::kSplit ? "split" : "dense"; }

absl::StatusOr<std::unique_ptr<Executor>> MakeTorchExecutor(const Circuit& circuit, const std::string& base_directory,
                                                            ModelForm form, DataType type, const std::string& device) {
  LoadedDense loaded;
  if (form == ModelForm::kDense) {
    QGPU_ASSIGN_OR_RETURN(loaded, LoadDense(circuit, base_directory, type, device));
  } else {
    QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, CheckedDevice(type, device));
    SetDefaultThreads(1);
    QGPU_ASSIGN_OR_RETURN(loaded.fed->model, QwenModel::Load(CompiledModel(circuit), type, torch_device));
  }
  return std::make_unique<TorchExecutor>(std::move(loaded.fed), loaded.first_machine_token, LayerHeads(circuit),
                                         Describe(form, type, device));
}

absl::StatusOr<std::unique_ptr<TextModel>> LoadTextModel(const std::string& directory, DataType type,
                                                         const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(const at::Device torch_device, ParseDevice(device));
  SetDefaultThreads(CoreCount());
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(directory));
  auto fed = std::make_shared<FedModel>();
  QGPU_ASSIGN_OR_RETURN(fed->model, QwenModel::Load(*checkpoint, type, torch_device));
  fed->max_positions = checkpoint->shape().max_positions;
  return std::make_unique<TorchTextModel>(std::move(fed));
}

absl::StatusOr<std::unique_ptr<TextModel>> LoadMergedTextModel(const Circuit& circuit,
                                                               const std::string& base_directory, DataType type,
                                                               const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(LoadedDense dense, LoadDense(circuit, base_directory, type, device));
  return std::make_unique<TorchTextModel>(std::move(dense.fed));
}

absl::StatusOr<DenseModel> LoadDenseModel(const Circuit& circuit, const std::string& base_directory, DataType type,
                                          const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(const LoadedDense dense, LoadDense(circuit, base_directory, type, device));
  DenseModel both;
  both.first_machine_token = dense.first_machine_token;
  both.machine = std::make_unique<TorchExecutor>(dense.fed, dense.first_machine_token, LayerHeads(circuit),
                                                 Describe(ModelForm::kDense, type, device));
  both.text = std::make_unique<TorchTextModel>(dense.fed);
  return both;
}

}  // namespace qgpu
