#include "model/forward/sparse/head.h"

#include <algorithm>
#include <limits>

namespace qgpu::sparse {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

}  // namespace

template <typename Number>
Head<Number>::Head(const Circuit& circuit)
    : hidden_(circuit.hidden()),
      eps_(circuit.norm_eps),
      scale_(NormScale<Number>(circuit.final_norm)),
      rows_(circuit.embedding),
      ids_(circuit.embedding.rows),
      logits_(rows_.padded_rows()) {}

template <typename Number>
int32_t Head<Number>::Argmax(const float* x, Workspace& workspace, float* margin) {
  ApplyNorm<Number>(x, hidden_, eps_, scale_, workspace);
  std::fill(logits_.begin(), logits_.end(), 0.0f);
  for (int i = 0; i < workspace.active_count; ++i) {
    const int d = workspace.active[i];
    rows_.AddColumn(d, workspace.normed[d], logits_.data());
  }
  if (Number::kIsBFloat16) RoundAll(logits_.data(), ids_);
  const float largest = Largest(logits_.data(), ids_);
  const auto first = std::find(logits_.begin(), logits_.begin() + ids_, largest);
  const int32_t id = first == logits_.begin() + ids_ ? 0 : static_cast<int32_t>(first - logits_.begin());
  if (margin != nullptr) {
    logits_[id] = kLowest;
    *margin = largest - Largest(logits_.data(), ids_);
  }
  return id;
}

template class Head<Float32>;
template class Head<BFloat16>;

}  // namespace qgpu::sparse
