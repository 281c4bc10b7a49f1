// One compiled layer of the sparse executor: RMSNorm, Gated DeltaNet mixer with its recurrent states, RMSNorm, SwiGLU.
// The formulas are those of Qwen3_5GatedDeltaNet, torch_recurrent_gated_delta_rule and Qwen3_5MLP in transformers.
#pragma once

#include <bitset>
#include <span>
#include <vector>

#include "model/forward/sparse/matrices.h"
#include "model/weights/circuit.h"

namespace qgpu::sparse {

// Scratch memory, shared by the layers of one executor.
struct Workspace {
  explicit Workspace(const Circuit& circuit);

  std::vector<float> normed;     // [W]
  std::vector<uint16_t> active;  // dimensions of `normed` that are not 0, or active rows of a sum
  int active_count = 0;
  std::vector<float> sums;    // outputs of the mixer's or the MLP's first linear layers
  std::vector<float> shared;  // for GroupedRows::Multiply
  std::vector<float> output;  // [W], what is added to the residual
};

// RMSNorm of the residual x[0 .. W) over `hidden` dimensions, those beyond W being 0; `scale` is 1 + weight. Fills
// `normed` and `active`.
template <typename Number>
void ApplyNorm(const float* x, int hidden, float eps, const std::vector<float>& scale, Workspace& workspace);

// 1 + weight, as the norm multiplies.
template <typename Number>
std::vector<float> NormScale(const std::vector<float>& weight);

// Non-zero entries of a head's query, key or value.
struct ActiveVector {
  int count = 0;
  uint16_t index[kHeadDim];
  float value[kHeadDim];
};

template <typename Number>
class Layer {
 public:
  Layer(const Circuit& circuit, int index);

  // Takes the residual x[0 .. W) of one token through the layer.
  void Forward(float* x, Workspace& workspace);
  // Forgets all tokens.
  void Reset();
  // [128 keys][128 values]
  std::span<const float> State(int head) const;
  int heads() const { return heads_; }

 private:
  void Mix(float* x, Workspace& workspace);
  void Decay(int head, float a);
  void Write(int head, float beta, const ActiveVector& key, const ActiveVector& value);
  void Read(int head, const ActiveVector& query, const float* gate, float* output) const;
  void Mlp(float* x, Workspace& workspace) const;

  int hidden_, width_, heads_, neurons_;
  float eps_;
  std::vector<float> input_scale_, post_scale_, head_norm_;
  std::vector<float> rate_, dt_bias_;  // rate = exp(A_log)
  MixerRows mixer_;
  LineMatrix out_;
  GroupedRows gate_;  // neurons are renumbered by it
  LineMatrix up_, down_;
  struct HeadState {
    float last_a, last_decay;       // exp(g) of the last `a` seen, which rarely changes
    std::bitset<kHeadDim> written;  // rows of the state that may be other than 0
  };
  std::vector<HeadState> head_states_;
  std::vector<float> states_;  // [heads][128][128]
};

}  // namespace qgpu::sparse
