#include "model/forward/sparse/sparse_executor.h"

#include <algorithm>
#include <limits>

#include "common/check.h"
#include "model/forward/sparse/head.h"
#include "model/forward/sparse/layer.h"

namespace qgpu {
namespace sparse {
namespace {

class MarginWatcher {
 public:
  explicit MarginWatcher(bool enabled) : enabled_(enabled) {}
  virtual ~MarginWatcher() = default;
  bool enabled() const { return enabled_; }
  float last_margin() const { return last_; }
  float smallest_margin() const { return smallest_; }

 protected:
  bool enabled_;
  float last_ = std::numeric_limits<float>::infinity();
  float smallest_ = std::numeric_limits<float>::infinity();
};

template <typename Number>
class SparseExecutor : public Executor, public MarginWatcher {
 public:
  SparseExecutor(std::shared_ptr<const Circuit> circuit, DataType type, bool watch_margins)
      : MarginWatcher(watch_margins),
        type_(type),
        machine_ids_(circuit->embedding.rows),
        embedding_(circuit->embedding, LineMatrix::Lines::kRows),
        head_(*circuit),
        workspace_(*circuit),
        residual_(circuit->width) {
    layers_.reserve(circuit->layers.size());
    for (size_t i = 0; i < circuit->layers.size(); ++i) layers_.emplace_back(*circuit, static_cast<int>(i));
  }

  void Reset() override {
    for (Layer<Number>& layer : layers_) layer.Reset();
  }

  absl::StatusOr<std::vector<int32_t>> Feed(std::span<const int32_t> machine_ids) override {
    for (const int32_t id : machine_ids) {
      if (id < 0 || id >= machine_ids_) {
        return absl::InvalidArgumentError(fmt::format("machine id {}: the circuit has {}", id, machine_ids_));
      }
    }
    std::vector<int32_t> next;
    next.reserve(machine_ids.size());
    for (const int32_t id : machine_ids) next.push_back(Step(id));
    return next;
  }

  absl::StatusOr<std::vector<float>> ReadState(int layer, int head) override {
    if (layer < 0 || layer >= static_cast<int>(layers_.size()) || head < 0 || head >= layers_[layer].heads()) {
      return absl::InvalidArgumentError(fmt::format("the circuit has no head {} in layer {}", head, layer));
    }
    const std::span<const float> state = layers_[layer].State(head);
    return std::vector<float>(state.begin(), state.end());
  }

  std::string Description() const override { return fmt::format("sparse split {}", DataTypeName(type_)); }

 private:
  int32_t Step(int32_t id) {
    std::fill(residual_.begin(), residual_.end(), 0.0f);
    embedding_.Scatter(id, 1.0f, residual_.data());
    for (Layer<Number>& layer : layers_) layer.Forward(residual_.data(), workspace_);
    if (!enabled_) return head_.Argmax(residual_.data(), workspace_, nullptr);
    const int32_t next = head_.Argmax(residual_.data(), workspace_, &last_);
    smallest_ = std::min(smallest_, last_);
    return next;
  }

  DataType type_;
  int32_t machine_ids_;
  LineMatrix embedding_;
  std::vector<Layer<Number>> layers_;
  Head<Number> head_;
  Workspace workspace_;
  std::vector<float> residual_;
};

std::unique_ptr<Executor> Make(std::shared_ptr<const Circuit> circuit, DataType type, bool watch_margins) {
  QGPU_CHECK(type != DataType::kFloat16, "the sparse executor computes in float32 or bfloat16");
  if (type == DataType::kFloat32) {
    return std::make_unique<SparseExecutor<Float32>>(std::move(circuit), type, watch_margins);
  }
  return std::make_unique<SparseExecutor<BFloat16>>(std::move(circuit), type, watch_margins);
}

const MarginWatcher& Watcher(const Executor& executor) {
  const auto* watcher = dynamic_cast<const MarginWatcher*>(&executor);
  QGPU_CHECK(watcher != nullptr && watcher->enabled(), "not a margin watching executor");
  return *watcher;
}

}  // namespace
}  // namespace sparse

std::unique_ptr<Executor> MakeSparseExecutor(std::shared_ptr<const Circuit> circuit, DataType type) {
  return sparse::Make(std::move(circuit), type, false);
}

std::unique_ptr<Executor> MakeMarginWatchingExecutor(std::shared_ptr<const Circuit> circuit, DataType type) {
  return sparse::Make(std::move(circuit), type, true);
}

float LastMargin(const Executor& executor) { return sparse::Watcher(executor).last_margin(); }

float SmallestMargin(const Executor& executor) { return sparse::Watcher(executor).smallest_margin(); }

}  // namespace qgpu
