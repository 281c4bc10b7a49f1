#include "model/forward/torch/gated_delta.h"

#include <cmath>
#include <limits>

#include "ATen/ATen.h"

namespace qgpu {
namespace {

using at::Tensor;

constexpr int64_t kChunk = 64;

Tensor NormaliseL2(const Tensor& x) { return x * (x * x).sum(-1, /*keepdim=*/true).add(1e-6).rsqrt(); }

}  // namespace

Tensor GatedDeltaStep(const DeltaInput& input, Tensor& state) {
  const Tensor k = NormaliseL2(input.k);                                                     // [h, 1, dk]
  const Tensor q = NormaliseL2(input.q) / std::sqrt(static_cast<double>(input.q.size(-1)));  // [h, 1, dk]
  state.mul_(input.g.exp().unsqueeze(-1));
  const Tensor delta = (input.v - at::bmm(k, state)) * input.beta.unsqueeze(-1);  // [h, 1, dv]
  state.baddbmm_(k.transpose(1, 2), delta);
  return at::bmm(q, state);
}

Tensor GatedDeltaChunks(const DeltaInput& input, Tensor& state) {
  const int64_t heads = input.k.size(0), positions = input.k.size(1), key_dim = input.k.size(2),
                value_dim = input.v.size(2);
  const int64_t padding = (kChunk - positions % kChunk) % kChunk, chunks = (positions + padding) / kChunk;
  const auto chunked = [&](const Tensor& x) {  // [h, n, d] -> [h, chunks, 64, d]
    return at::constant_pad_nd(x, {0, 0, 0, padding}).reshape({heads, chunks, kChunk, x.size(2)});
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(key_dim));
  const Tensor beta = chunked(input.beta.unsqueeze(-1));                      // [h, chunks, 64, 1]
  const Tensor decay = chunked(input.g.unsqueeze(-1)).squeeze(-1).cumsum(2);  // [h, chunks, 64], logarithms
  Tensor q = chunked(NormaliseL2(input.q) * scale), k = chunked(NormaliseL2(input.k));
  const Tensor k_beta = k * beta, v_beta = chunked(input.v) * beta;

  // decay accumulated from position j to position i of a chunk, 0 for j > i
  const Tensor later = at::ones({kChunk, kChunk}, decay.options().dtype(at::kBool)).triu(1);
  const Tensor pairwise =
      (decay.unsqueeze(3) - decay.unsqueeze(2)).masked_fill(later, -std::numeric_limits<float>::infinity()).exp();
  const Tensor system = at::matmul(k_beta, k.transpose(-1, -2)) * pairwise;
  const Tensor attention = at::matmul(q, k.transpose(-1, -2)) * pairwise;
  const Tensor decay_factor = decay.exp().unsqueeze(-1);
  // What each position writes, given what the earlier ones of its chunk wrote: a unit lower triangular system.
  const auto solve = [&](const Tensor& right) {
    return at::linalg_solve_triangular(system, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  };
  const Tensor values = solve(v_beta), k_cumulated = solve(k_beta * decay_factor);
  q = q * decay_factor;
  k = k * (decay.slice(2, kChunk - 1, kChunk) - decay).exp().unsqueeze(-1);
  const Tensor chunk_decay = decay.select(2, kChunk - 1).exp();  // [h, chunks]

  Tensor out = at::empty({heads, chunks, kChunk, value_dim}, values.options());
  for (int64_t i = 0; i < chunks; ++i) {
    const Tensor written = values.select(1, i) - at::bmm(k_cumulated.select(1, i), state);
    out.select(1, i).copy_(at::bmm(q.select(1, i), state) + at::bmm(attention.select(1, i), written));
    state = state * chunk_decay.select(1, i).reshape({heads, 1, 1}) + at::bmm(k.select(1, i).transpose(1, 2), written);
  }
  return out.reshape({heads, chunks * kChunk, value_dim}).slice(1, 0, positions);
}

}  // namespace qgpu
