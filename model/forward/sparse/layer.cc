#include "model/forward/sparse/layer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qgpu::sparse {
namespace {

constexpr float kL2Eps = 1e-6f;  // of the query and key norms, fixed in the published code
constexpr int kStateSize = kHeadDim * kHeadDim;

// silu of 128 sums, without the zeros.
template <typename Number>
void Activate(const float* sums, ActiveVector& out) {
  uint16_t candidates[kHeadDim];
  const int count = CollectAbove(sums, kHeadDim, kSiluIsZeroBelow, candidates);
  out.count = 0;
  for (int i = 0; i < count; ++i) {
    const float value = Number::Round(Silu(Number::Round(sums[candidates[i]])));
    if (value == 0) continue;
    out.index[out.count] = candidates[i];
    out.value[out.count++] = value;
  }
}

void NormalizeL2(ActiveVector& vector) {
  float sum = 0;
  for (int i = 0; i < vector.count; ++i) sum += vector.value[i] * vector.value[i];
  const float inverse = 1.0f / std::sqrt(sum + kL2Eps);
  for (int i = 0; i < vector.count; ++i) vector.value[i] *= inverse;
}

template <typename Number>
std::vector<float> Rounded(const std::vector<float>& values) {
  std::vector<float> out(values);
  for (float& value : out) value = Number::Round(value);
  return out;
}

}  // namespace

Workspace::Workspace(const Circuit& circuit) {
  const int rows = std::max(circuit.max_heads() * (4 * kHeadDim + 2), circuit.max_neurons()) + kBlockRows;
  normed.resize(circuit.width);
  output.resize(circuit.width);
  sums.resize(rows);
  shared.resize(rows);
  active.resize(std::max(rows, circuit.width));
}

template <typename Number>
std::vector<float> NormScale(const std::vector<float>& weight) {
  std::vector<float> scale = Rounded<Number>(weight);
  for (float& value : scale) value = 1.0f + value;
  return scale;
}

template <typename Number>
void ApplyNorm(const float* x, int hidden, float eps, const std::vector<float>& scale, Workspace& workspace) {
  const int width = static_cast<int>(scale.size());
  const float mean = SumOfSquares(x, width) / static_cast<float>(hidden);
  const float inverse = 1.0f / std::sqrt(mean + eps);
  float* normed = workspace.normed.data();
  Normalize(x, inverse, scale.data(), width, Number::kIsBFloat16, normed);
  workspace.active_count = CollectNonzero(normed, width, workspace.active.data());
}

template <typename Number>
Layer<Number>::Layer(const Circuit& circuit, int index)
    : hidden_(circuit.hidden()),
      width_(circuit.width),
      heads_(circuit.layers[index].heads),
      neurons_(circuit.layers[index].neurons),
      eps_(circuit.norm_eps),
      input_scale_(NormScale<Number>(circuit.layers[index].input_norm)),
      post_scale_(NormScale<Number>(circuit.layers[index].post_norm)),
      head_norm_(Rounded<Number>(circuit.layers[index].head_norm)),
      rate_(Rounded<Number>(circuit.layers[index].a_log)),
      dt_bias_(Rounded<Number>(circuit.layers[index].dt_bias)),
      mixer_(circuit.layers[index]),
      out_(circuit.layers[index].out, LineMatrix::Lines::kColumns),
      gate_(circuit.layers[index].gate),
      up_(circuit.layers[index].up, LineMatrix::Lines::kRows),
      down_(circuit.layers[index].down, LineMatrix::Lines::kColumns) {
  up_.Reorder(gate_.order());
  down_.Reorder(gate_.order());
  for (float& rate : rate_) rate = std::exp(rate);
  states_.resize(static_cast<size_t>(heads_) * kStateSize);
  head_states_.assign(heads_, {std::numeric_limits<float>::quiet_NaN(), 0, {}});
}

template <typename Number>
void Layer<Number>::Reset() {
  std::fill(states_.begin(), states_.end(), 0.0f);
  for (HeadState& head : head_states_) head.written.reset();
}

template <typename Number>
std::span<const float> Layer<Number>::State(int head) const {
  return std::span(states_).subspan(static_cast<size_t>(head) * kStateSize, kStateSize);
}

template <typename Number>
void Layer<Number>::Forward(float* x, Workspace& workspace) {
  if (heads_ > 0) Mix(x, workspace);
  if (neurons_ > 0) Mlp(x, workspace);
}

template <typename Number>
void Layer<Number>::Mix(float* x, Workspace& workspace) {
  ApplyNorm<Number>(x, hidden_, eps_, input_scale_, workspace);
  const float* sums = workspace.sums.data();
  mixer_.Multiply(workspace.normed.data(), workspace.active.data(), workspace.active_count, workspace.sums.data());
  std::fill(workspace.output.begin(), workspace.output.end(), 0.0f);
  ActiveVector query, key, value;
  for (int head = 0; head < heads_; ++head) {
    const MixerRows::Places& places = mixer_.places(head);
    Decay(head, Number::Round(sums[places.a]));
    const float beta = Number::Round(Sigmoid(Number::Round(sums[places.b])));
    if (beta != 0) {
      Activate<Number>(sums + places.k, key);
      if (key.count > 0) {
        NormalizeL2(key);
        Activate<Number>(sums + places.v, value);
        Write(head, beta, key, value);
      }
    }
    Activate<Number>(sums + places.q, query);
    if (query.count == 0) continue;
    NormalizeL2(query);
    Read(head, query, sums + places.z, workspace.output.data());
  }
  AddResidual(x, workspace.output.data(), width_, Number::kIsBFloat16);
}

// S <- exp(g) S
template <typename Number>
void Layer<Number>::Decay(int head, float a) {
  HeadState& memo = head_states_[head];
  if (a != memo.last_a) {
    memo.last_a = a;
    memo.last_decay = std::exp(-rate_[head] * Softplus(a + dt_bias_[head]));
  }
  const float decay = memo.last_decay;
  if (decay == 1.0f) return;
  float* state = states_.data() + static_cast<size_t>(head) * kStateSize;
  for (int row = 0; row < kHeadDim; ++row) {
    if (!memo.written[row]) continue;
    for (int j = 0; j < kHeadDim; ++j) state[row * kHeadDim + j] *= decay;
  }
  if (decay == 0) memo.written.reset();
}

// S <- S + k (beta (v - S^T k))^T
template <typename Number>
void Layer<Number>::Write(int head, float beta, const ActiveVector& key, const ActiveVector& value) {
  float* state = states_.data() + static_cast<size_t>(head) * kStateSize;
  float delta[kHeadDim] = {};
  for (int i = 0; i < key.count; ++i) {
    AddScaled(delta, state + key.index[i] * kHeadDim, key.value[i], kHeadDim);
  }
  float target[kHeadDim] = {};
  for (int i = 0; i < value.count; ++i) target[value.index[i]] = value.value[i];
  for (int j = 0; j < kHeadDim; ++j) delta[j] = (target[j] - delta[j]) * beta;
  for (int i = 0; i < key.count; ++i) {
    AddScaled(state + key.index[i] * kHeadDim, delta, key.value[i], kHeadDim);
    head_states_[head].written.set(key.index[i]);
  }
}

// Adds W_out (gated norm of S^T q / sqrt(128)) to `output`.
template <typename Number>
void Layer<Number>::Read(int head, const ActiveVector& query, const float* gate, float* output) const {
  const float* state = states_.data() + static_cast<size_t>(head) * kStateSize;
  const float root = std::sqrt(static_cast<float>(kHeadDim));
  float read[kHeadDim] = {};
  for (int i = 0; i < query.count; ++i) {
    AddScaled(read, state + query.index[i] * kHeadDim, query.value[i] / root, kHeadDim);
  }
  if (Number::kIsBFloat16) RoundAll(read, kHeadDim);
  const float mean = SumOfSquares(read, kHeadDim) / static_cast<float>(kHeadDim);
  const float inverse = 1.0f / std::sqrt(mean + eps_);
  for (int j = 0; j < kHeadDim; ++j) {
    if (read[j] == 0) continue;
    const float scaled = Number::Round(head_norm_[j] * Number::Round(read[j] * inverse));
    const float gated = Number::Round(scaled * Silu(Number::Round(gate[j])));
    if (gated != 0) out_.Scatter(head * kHeadDim + j, gated, output);
  }
}

template <typename Number>
void Layer<Number>::Mlp(float* x, Workspace& workspace) const {
  ApplyNorm<Number>(x, hidden_, eps_, post_scale_, workspace);
  gate_.Multiply(workspace.normed.data(), workspace.active.data(), workspace.active_count, workspace.shared.data(),
                 workspace.sums.data());
  std::fill(workspace.output.begin(), workspace.output.end(), 0.0f);
  const int count = CollectAbove(workspace.sums.data(), neurons_, kSiluIsZeroBelow, workspace.active.data());
  for (int i = 0; i < count; ++i) {
    const int neuron = workspace.active[i];
    const float gate = Number::Round(Silu(Number::Round(workspace.sums[neuron])));
    const float up = Number::Round(up_.Dot(neuron, workspace.normed.data()));
    const float product = Number::Round(gate * up);
    if (product != 0) down_.Scatter(neuron, product, workspace.output.data());
  }
  AddResidual(x, workspace.output.data(), width_, Number::kIsBFloat16);
}

template void ApplyNorm<Float32>(const float*, int, float, const std::vector<float>&, Workspace&);
template void ApplyNorm<BFloat16>(const float*, int, float, const std::vector<float>&, Workspace&);
template std::vector<float> NormScale<Float32>(const std::vector<float>&);
template std::vector<float> NormScale<BFloat16>(const std::vector<float>&);
template class Layer<Float32>;
template class Layer<BFloat16>;

}  // namespace qgpu::sparse
