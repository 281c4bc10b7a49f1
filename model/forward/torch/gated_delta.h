// The gated delta rule, the recurrence of Qwen3.5's linear attention layers, in float32:
//   S <- exp(g) S;  S <- S + k (beta (v - S^T k))^T;  o = S^T q
// The same arithmetic as torch_recurrent_gated_delta_rule and torch_chunk_gated_delta_rule of the public transformers
// library, so that states that are exact there are exact here.
#pragma once

#include "ATen/core/Tensor.h"

namespace qgpu {

// Inputs of n positions and h value heads, float32 (keys already repeated for the value heads that share them).
struct DeltaInput {
  at::Tensor q, k;  // [h, n, dk], not normalised yet
  at::Tensor v;     // [h, n, dv]
  at::Tensor beta;  // [h, n]
  at::Tensor g;     // [h, n], at most 0
};

// One position. Updates state [h, dk, dv] in place; returns o [h, 1, dv].
at::Tensor GatedDeltaStep(const DeltaInput& input, at::Tensor& state);

// Any number of positions, 64 at a time by matrix products. Updates state; returns o [h, n, dv].
at::Tensor GatedDeltaChunks(const DeltaInput& input, at::Tensor& state);

}  // namespace qgpu
