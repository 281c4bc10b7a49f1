// How a base's weights are rescaled for the merged residual, which is wider: so that the text comes out as the base's
// own, in float32 to rounding, and in bfloat16 with hardly a weight rounded anew.
//
// Qwen's RMSNorm averages over H = H0 + W dimensions instead of H0, and its epsilon cannot change, since the head norms
// share it. What the base writes into the residual is multiplied by s, which makes the mean of squares c = s^2 H0 / H
// times the base's; 1 + w of every residual norm is multiplied by sqrt(c) / s = sqrt(H0 / H). For the epsilon to weigh
// the same, the rest of the mean of squares has to be c times it: text rows hold a filler t in an added dimension that
// nothing reads, t^2 / H = (c - 1) eps. So s may be any number with c >= 1, and is a power of two: embeddings and
// output projections stay exact in bfloat16.
//
// A norm's weight is stored as w, not as 1 + w, and bfloat16 has few digits left where 1 + w is small. So 1 + w is also
// multiplied by the power of two that makes its rounding smallest, and the weights that read the norm divided by it,
// which is exact. The last norm is read by the head alone: where that is tied it cannot be rescaled, and if the
// rounding is then larger than that of an activation, the merged model gets a head of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/base/checkpoint.h"
#include "model/weights/circuit.h"

namespace qgpu {

struct TextScaling {
  double residual = 1;            // s
  double norm_gain = 1;           // of every residual norm: sqrt(H0 / H)
  int64_t filler_dimension = -1;  // among the circuit's; -1: none is free, and s is sqrt(H / H0)
  float filler = 0;               // t

  struct LayerShifts {
    int input = 0, post = 0;  // powers of two, of the two residual norms
  };
  std::vector<LayerShifts> layers;  // the base's
  bool has_own_head = false;        // of the merged model
  double final_gain = 1;            // of the last norm: norm_gain 2^k, and / s where the head is tied
  double head_scale = 1;            // of the text rows of an own head: 2^-k
};

// `text_flag` is what text rows hold in the circuit's text flag dimension; `constant_dimension`, where not negative, is
// one that the merged model reads beside the circuit's own layers. Errors of the base's files.
absl::StatusOr<TextScaling> PlanTextScaling(const Circuit& circuit, const Checkpoint& base, double text_flag,
                                            int64_t constant_dimension);

// The root mean square, over a norm's weights, of the relative error of 1 + w' after w' = (1 + w) gain - 1 is rounded
// to bfloat16.
double NormRoundingError(const std::vector<float>& weights, double gain);

}  // namespace qgpu
