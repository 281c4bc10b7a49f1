#include "model/merge/text_scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/stored_type.h"

namespace qgpu {
namespace {

// More rounding than this in the last norm is more than its input's own in bfloat16 (2^-9 at most for each value).
constexpr double kLargestTiedRounding = 0x1p-8;
constexpr int kMostShift = 6;

// An added dimension that no layer reads or writes and no logit depends on; -1 when there is none.
int64_t FindFillerDimension(const Circuit& circuit, int64_t constant_dimension) {
  std::vector<bool> is_free(circuit.width, true);
  is_free[circuit.text_flag_dimension] = false;
  if (constant_dimension >= 0) is_free[constant_dimension] = false;
  for (const CircuitLayer& layer : circuit.layers) {
    for (const SparseMatrix* reader :
         {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.gate, &layer.up}) {
      for (int32_t dim : reader->col) is_free[dim] = false;
    }
    for (const SparseMatrix* writer : {&layer.out, &layer.down}) {
      for (int32_t dim : writer->row) is_free[dim] = false;
    }
  }
  for (int64_t dim = 0; dim < circuit.width; ++dim) {
    if (is_free[dim] && circuit.final_norm[dim] == -1) return dim;
  }
  return -1;
}

absl::StatusOr<std::vector<float>> ReadNorm(const Checkpoint& base, const std::string& name) {
  std::vector<float> weights(base.shape().hidden);
  QGPU_RETURN_IF_ERROR(base.ReadRows({name, {base.shape().hidden}}, 0, base.shape().hidden, weights.data()));
  return weights;
}

// The k of least rounding, of several alike the one nearest to 0.
int BestShift(const std::vector<float>& weights, double gain) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int distance = 0; distance <= kMostShift; ++distance) {
    for (int shift : {distance, -distance}) {
      const double error = NormRoundingError(weights, std::ldexp(gain, shift));
      if (error < least) least = error, best = shift;
    }
  }
  return best;
}

}  // namespace

double NormRoundingError(const std::vector<float>& weights, double gain) {
  double squares = 0;
  int64_t count = 0;
  for (float weight : weights) {
    const double exact = (1.0 + weight) * gain;
    if (exact == 0 || !std::isfinite(exact)) continue;
    const double rounded = 1.0 + BFloat16ToFloat(FloatToBFloat16(static_cast<float>(exact - 1)));
    squares += std::pow(rounded / exact - 1, 2);
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

absl::StatusOr<TextScaling> PlanTextScaling(const Circuit& circuit, const Checkpoint& base, double text_flag,
                                            int64_t constant_dimension) {
  const ModelShape& shape = base.shape();
  const double merged = circuit.hidden(), ratio = merged / static_cast<double>(shape.hidden);
  TextScaling scaling;
  scaling.norm_gain = 1 / std::sqrt(ratio);
  scaling.filler_dimension = FindFillerDimension(circuit, constant_dimension);
  if (scaling.filler_dimension < 0) {
    scaling.residual = std::sqrt(ratio);
  } else {
    scaling.residual = std::exp2(std::ceil(std::log2(ratio) / 2));
    const double growth = scaling.residual * scaling.residual / ratio;  // c
    const double energy = merged * shape.norm_eps * (growth - 1) - text_flag * text_flag;
    scaling.filler = static_cast<float>(std::sqrt(std::max(0.0, energy)));
  }
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::string prefix = LayerPrefix(static_cast<int64_t>(i));
    QGPU_ASSIGN_OR_RETURN(const auto input, ReadNorm(base, prefix + "input_layernorm.weight"));
    QGPU_ASSIGN_OR_RETURN(const auto post, ReadNorm(base, prefix + "post_attention_layernorm.weight"));
    scaling.layers.push_back({BestShift(input, scaling.norm_gain), BestShift(post, scaling.norm_gain)});
  }
  QGPU_ASSIGN_OR_RETURN(const auto last, ReadNorm(base, "norm.weight"));
  const double tied_gain = scaling.norm_gain / scaling.residual;
  scaling.has_own_head = !shape.tied_head || NormRoundingError(last, tied_gain) > kLargestTiedRounding;
  if (scaling.has_own_head) {
    const int shift = BestShift(last, scaling.norm_gain);
    scaling.final_gain = std::ldexp(scaling.norm_gain, shift);
    scaling.head_scale = std::ldexp(1.0, -shift);
  } else {
    scaling.final_gain = tied_gain;
  }
  return scaling;
}

}  // namespace qgpu
