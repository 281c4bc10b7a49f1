// The layers of the published code, written out for a circuit as plainly as possible: dense matrices, double precision,
// no zero skipped. What the sparse executor's tests compare with.
#pragma once

#include <cmath>
#include <vector>

#include "model/forward/executor.h"
#include "model/forward/sparse/rounding.h"
#include "model/weights/circuit.h"

namespace qgpu {

class DenseReference {
 public:
  DenseReference(const Circuit& circuit, DataType type) : circuit_(circuit), bfloat16_(type == DataType::kBFloat16) {
    for (const CircuitLayer& layer : circuit.layers) {
      states_.emplace_back(layer.heads, std::vector<double>(kHeadDim * kHeadDim));
    }
  }

  // Feeds one token and returns the logits.
  std::vector<double> Step(int32_t id) {
    std::vector<double> x(circuit_.hidden());
    for (size_t i = 0; i < circuit_.embedding.nonzeros(); ++i) {
      if (circuit_.embedding.row[i] == id) x[circuit_.embedding.col[i]] = circuit_.embedding.value[i];
    }
    for (size_t i = 0; i < circuit_.layers.size(); ++i) {
      const CircuitLayer& layer = circuit_.layers[i];
      Add(x, Mix(layer, Norm(x, layer.input_norm), states_[i]));
      Add(x, Mlp(layer, Norm(x, layer.post_norm)));
    }
    return Linear(circuit_.embedding, Norm(x, circuit_.final_norm));
  }

  const std::vector<double>& State(int layer, int head) const { return states_[layer][head]; }

 private:
  using Vector = std::vector<double>;

  double Round(double value) const { return bfloat16_ ? sparse::RoundToBFloat16(static_cast<float>(value)) : value; }
  double Silu(double x) const { return Round(x / (1 + std::exp(-x))); }

  Vector Norm(const Vector& x, const std::vector<float>& weight) const {
    double sum = 0;
    for (double value : x) sum += value * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + circuit_.norm_eps);
    Vector out(x.size());
    for (size_t d = 0; d < weight.size(); ++d) out[d] = Round(x[d] * scale * (1 + Round(weight[d])));
    return out;
  }

  Vector Linear(const SparseMatrix& matrix, const Vector& x) const {
    Vector dense(static_cast<size_t>(matrix.rows) * matrix.cols);
    for (size_t i = 0; i < matrix.nonzeros(); ++i) {
      dense[static_cast<size_t>(matrix.row[i]) * matrix.cols + matrix.col[i]] = matrix.value[i];
    }
    Vector out(matrix.rows);
    for (int32_t row = 0; row < matrix.rows; ++row) {
      for (int32_t col = 0; col < matrix.cols; ++col) {
        out[row] += dense[static_cast<size_t>(row) * matrix.cols + col] * x[col];
      }
      out[row] = Round(out[row]);
    }
    return out;
  }

  void Add(Vector& x, const Vector& y) const {
    for (size_t d = 0; d < y.size(); ++d) x[d] = Round(x[d] + y[d]);
  }

  Vector HeadPart(const Vector& all, int32_t head, bool normalize) const {
    Vector out(all.begin() + head * kHeadDim, all.begin() + (head + 1) * kHeadDim);
    double sum = 1e-6;
    for (double& value : out) {
      value = Silu(value);
      sum += value * value;
    }
    if (normalize) {
      for (double& value : out) value /= std::sqrt(sum);
    }
    return out;
  }

  Vector Mix(const CircuitLayer& layer, const Vector& n, std::vector<Vector>& states) const {
    const Vector q = Linear(layer.q, n), k = Linear(layer.k, n), v = Linear(layer.v, n), z = Linear(layer.z, n);
    const Vector b = Linear(layer.b, n), a = Linear(layer.a, n);
    Vector y(static_cast<size_t>(layer.heads) * kHeadDim);
    for (int32_t head = 0; head < layer.heads; ++head) {
      const double beta = Round(1 / (1 + std::exp(-b[head])));
      const double decay =
          std::exp(-std::exp(Round(layer.a_log[head])) * std::log1p(std::exp(a[head] + Round(layer.dt_bias[head]))));
      const Vector o =
          Recur(HeadPart(q, head, true), HeadPart(k, head, true), HeadPart(v, head, false), beta, decay, states[head]);
      double mean = 0;
      for (double value : o) mean += value * value / kHeadDim;
      for (int j = 0; j < kHeadDim; ++j) {
        const double scaled = Round(Round(layer.head_norm[j]) * Round(o[j] / std::sqrt(mean + circuit_.norm_eps)));
        const double gate = z[head * kHeadDim + j];
        y[head * kHeadDim + j] = Round(scaled * gate / (1 + std::exp(-gate)));
      }
    }
    return Linear(layer.out, y);
  }

  Vector Recur(const Vector& q, const Vector& k, const Vector& v, double beta, double decay, Vector& state) const {
    Vector o(kHeadDim);
    for (double& value : state) value *= decay;
    for (int j = 0; j < kHeadDim; ++j) {
      double memory = 0;
      for (int i = 0; i < kHeadDim; ++i) memory += state[i * kHeadDim + j] * k[i];
      for (int i = 0; i < kHeadDim; ++i) state[i * kHeadDim + j] += k[i] * beta * (v[j] - memory);
      for (int i = 0; i < kHeadDim; ++i) o[j] += state[i * kHeadDim + j] * q[i] / std::sqrt(double{kHeadDim});
      o[j] = Round(o[j]);
    }
    return o;
  }

  Vector Mlp(const CircuitLayer& layer, const Vector& m) const {
    Vector gate = Linear(layer.gate, m);
    const Vector up = Linear(layer.up, m);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = Round(Silu(gate[i]) * up[i]);
    return Linear(layer.down, gate);
  }

  const Circuit& circuit_;
  bool bfloat16_;
  std::vector<std::vector<Vector>> states_;
};

}  // namespace qgpu
