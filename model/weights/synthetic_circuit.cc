#include "model/weights/synthetic_circuit.h"

#include <bit>
#include <cmath>
#include <utility>

#include "common/prng.h"

namespace qgpu {
namespace {

float RoundToBFloat16(double value) {
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

double Centred(SplitMix64& random) { return 2 * random.Uniform() - 1; }

SparseMatrix RandomMatrix(SplitMix64& random, int32_t rows, int32_t cols, double density, double scale) {
  SparseMatrixBuilder builder;
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t col = 0; col < cols; ++col) {
      if (random.Uniform() < density) builder.Add(row, col, scale * Centred(random));
    }
  }
  return builder.Finish(rows, cols);
}

std::vector<float> RandomVector(SplitMix64& random, int32_t size, double centre, double scale) {
  std::vector<float> out(size);
  for (float& value : out) value = RoundToBFloat16(centre + scale * Centred(random));
  return out;
}

// Builds MakeDigitalCircuit's result. Residual: constants, the clear flag, bits A, bits B, bits read from heads.
class DigitalBuilder {
 public:
  DigitalBuilder(const DigitalShape& shape, uint64_t seed) : shape_(shape), random_(seed) {}

  Circuit Build() {
    LayOut();
    circuit_.norm_log2 = kNormLog2;
    circuit_.format_version = kCircuitFormatVersion;
    circuit_.base_hidden = shape_.base_hidden;
    circuit_.text_flag_dimension = flag_;
    AddConstants();
    AddEmbedding();
    for (int32_t i = 0; i < shape_.layers; ++i) circuit_.layers.push_back(Layer(i));
    circuit_.cells["memory"] = {0, 0, 0, kHeadDim, {0, 1, 2, 3}};
    return std::move(circuit_);
  }

 private:
  static constexpr int kNormLog2 = 8;
  static constexpr int32_t kConstants = 24;  // room for every digit of H in base 4, and the one of value 1

  void LayOut() {
    flag_ = kConstants;
    first_[0] = flag_ + 1;
    first_[1] = first_[0] + shape_.bits;
    read_ = first_[1] + shape_.bits;
    circuit_.width = read_ + shape_.heads * shape_.read_bits;
  }

  // sum(C^2) = 4^m H, from the digits of H in base 4; the largest constant serves as the literal "1".
  void AddConstants() {
    int32_t dim = 0, power = 0;
    for (int32_t rest = circuit_.hidden(); rest > 0; rest /= 4, ++power) {
      for (int32_t i = 0; i < rest % 4; ++i) constants_.push_back(std::ldexp(1.0, power + kNormLog2));
    }
    one_ = static_cast<int32_t>(constants_.size()) - 1;
    norm_.assign(circuit_.width, 0);
    for (double constant : constants_) norm_[dim++] = RoundToBFloat16(std::ldexp(1.0, kNormLog2) / constant - 1);
    for (int32_t d = flag_; d < circuit_.width; ++d) norm_[d] = (1 << kNormLog2) - 1;
    circuit_.final_norm.assign(circuit_.width, -1);
    const int32_t last = first_[shape_.layers % 2];
    for (int32_t i = 0; i < 2 * shape_.id_bits; ++i) circuit_.final_norm[last + i] = 31;
  }

  // An id's bits on two rails, in the bits that layer 0 reads and in those that the last layer writes.
  void AddEmbedding() {
    SparseMatrixBuilder embedding;
    const int32_t ids = 1 << shape_.id_bits;
    for (int32_t id = 0; id < ids; ++id) {
      for (size_t i = 0; i < constants_.size(); ++i) embedding.Add(id, static_cast<int32_t>(i), constants_[i]);
      if (id == 0) embedding.Add(id, flag_, 1);
      for (int32_t bit = 0; bit < shape_.id_bits; ++bit) {
        const int32_t rail = 2 * bit + (id >> bit & 1 ? 0 : 1);
        embedding.Add(id, first_[0] + rail, 1);
        if (shape_.layers % 2) embedding.Add(id, first_[1] + rail, 1);
      }
    }
    circuit_.embedding = embedding.Finish(ids, circuit_.width);
  }

  int32_t RandomSource(int32_t layer) {
    const int32_t count = layer == 0 ? 2 * shape_.id_bits : shape_.bits;
    return first_[layer % 2] + static_cast<int32_t>(random_.Below(count));
  }

  // 256 (sum of literals - (n - 1/2)); bit i of `signs` says that literal i is plain.
  void AddAnd(SparseMatrixBuilder& matrix, int32_t row, const std::vector<int32_t>& literals, uint32_t signs) {
    double bias = -(static_cast<double>(literals.size()) - 0.5);
    for (size_t i = 0; i < literals.size(); ++i) {
      const bool plain = signs >> i & 1;
      matrix.Add(row, literals[i], plain ? 256 : -256);
      if (!plain) bias += 1;
    }
    matrix.Add(row, one_, 256 * bias);
  }

  void AddMixer(CircuitLayer& layer, int32_t index) {
    SparseMatrixBuilder q, k, v, z, b, a, out;
    for (int32_t head = 0; head < layer.heads; ++head) {
      std::vector<int32_t> write(7), read(7);
      for (int32_t& dim : write) dim = RandomSource(index);
      for (int32_t& dim : read) dim = RandomSource(index);
      if (head % 2 == 0) read = write;
      for (int32_t i = 0; i < kHeadDim; ++i) {
        const int32_t row = head * kHeadDim + i;
        AddAnd(k, row, write, static_cast<uint32_t>(i));
        AddAnd(q, row, read, static_cast<uint32_t>(i));
        z.Add(row, one_, 128);
      }
      for (int32_t i = 0; i < kHeadDim / 2; ++i) {
        const int32_t source = RandomSource(index);
        AddAnd(v, head * kHeadDim + i, {source}, 1);
        AddAnd(v, head * kHeadDim + i + kHeadDim / 2, {source}, 0);
        if (i < shape_.read_bits) {
          out.Add(read_ + head * shape_.read_bits + i, head * kHeadDim + i, 1.0 / 128);
        }
      }
      b.Add(head, one_, -112);
      b.Add(head, RandomSource(index), 152);
      a.Add(head, flag_, 8192);
    }
    const int32_t channels = layer.heads * kHeadDim, width = circuit_.width;
    layer.q = q.Finish(channels, width);
    layer.k = k.Finish(channels, width);
    layer.v = v.Finish(channels, width);
    layer.z = z.Finish(channels, width);
    layer.b = b.Finish(layer.heads, width);
    layer.a = a.Finish(layer.heads, width);
    layer.out = out.Finish(width, channels);
    layer.a_log.assign(layer.heads, 0);
    layer.dt_bias.assign(layer.heads, -100);
    layer.head_norm.assign(kHeadDim, std::sqrt(0.5f));
  }

  // Each target bit is one of four random bits, chosen by two others; complementary rails for the id's bits.
  void AddMlp(CircuitLayer& layer, int32_t index) {
    SparseMatrixBuilder gate, up, down;
    int32_t neuron = 0;
    const auto linear = [&](int32_t dim) {  // clears `dim`
      gate.Add(neuron, one_, 128);
      up.Add(neuron, dim, -1.0 / 128);
      down.Add(dim, neuron++, 1);
    };
    for (int32_t i = 0; i < shape_.bits; ++i) linear(first_[1 - index % 2] + i);
    for (int32_t d = read_; d < circuit_.width; ++d) linear(d);
    std::vector<int32_t> literals(7);
    for (int32_t i = 0; i < shape_.bits; ++i) {
      const bool second_rail = i % 2 == 1 && i < 2 * shape_.id_bits;
      if (!second_rail) {
        for (int32_t& dim : literals) dim = RandomSource(index);
        if (shape_.heads > 0) literals[2] = read_ + static_cast<int32_t>(random_.Below(circuit_.width - read_));
      }
      for (uint32_t choice = 0; choice < 4; ++choice) {
        const std::vector<int32_t> chosen = {literals[0], literals[1], literals[2 + choice], literals[6]};
        for (uint32_t last = 0; last < 2; ++last) {
          AddStep(gate, neuron, chosen, choice | (second_rail ? 0u : 4u) | (last ? 8u : 0u), 0.75);
          AddStep(gate, neuron + 1, chosen, choice | (second_rail ? 0u : 4u) | (last ? 8u : 0u), 0.25);
          for (int side = 0; side < 2; ++side) {
            up.Add(neuron, one_, 2.0 / 512);
            down.Add(first_[1 - index % 2] + i, neuron++, side == 0 ? 1 : -1);
          }
        }
      }
    }
    layer.neurons = neuron;
    layer.gate = gate.Finish(neuron, circuit_.width);
    layer.up = up.Finish(neuron, circuit_.width);
    layer.down = down.Finish(circuit_.width, neuron);
  }

  // 512 (sum of literals - n + offset): with offsets 3/4 and 1/4 the difference is the restoring AND.
  void AddStep(SparseMatrixBuilder& matrix, int32_t row, const std::vector<int32_t>& literals, uint32_t signs,
               double offset) {
    double bias = offset - static_cast<double>(literals.size());
    for (size_t i = 0; i < literals.size(); ++i) {
      const bool plain = signs >> i & 1;
      matrix.Add(row, literals[i], plain ? 512 : -512);
      if (!plain) bias += 1;
    }
    matrix.Add(row, one_, 512 * bias);
  }

  CircuitLayer Layer(int32_t index) {
    CircuitLayer layer;
    layer.heads = shape_.heads;
    layer.input_norm = layer.post_norm = norm_;
    AddMixer(layer, index);
    AddMlp(layer, index);
    return layer;
  }

  DigitalShape shape_;
  SplitMix64 random_;
  Circuit circuit_;
  std::vector<double> constants_;
  std::vector<float> norm_;
  int32_t one_ = 0, flag_ = 0, read_ = 0;
  int32_t first_[2] = {0, 0};
};

}  // namespace

SparseMatrix SparseMatrixBuilder::Finish(int32_t rows, int32_t cols) const {
  SparseMatrix out;
  out.rows = rows;
  out.cols = cols;
  for (const auto& [place, weight] : weights_) {
    const float rounded = RoundToBFloat16(weight);
    if (rounded == 0) continue;
    out.row.push_back(place.first);
    out.col.push_back(place.second);
    out.value.push_back(rounded);
  }
  return out;
}

Circuit MakeAnalogCircuit(const AnalogShape& shape, uint64_t seed) {
  SplitMix64 random(seed);
  Circuit circuit;
  circuit.format_version = kCircuitFormatVersion;
  circuit.base_hidden = shape.base_hidden;
  circuit.width = shape.width;
  const int32_t width = shape.width, channels = shape.heads * kHeadDim;
  circuit.embedding = RandomMatrix(random, shape.machine_ids, width, 0.9, 1);
  circuit.final_norm = RandomVector(random, width, 0, 0.5);
  for (int32_t i = 0; i < shape.layers; ++i) {
    CircuitLayer layer;
    layer.heads = shape.heads;
    layer.neurons = shape.neurons;
    layer.input_norm = RandomVector(random, width, 0, 0.5);
    layer.q = RandomMatrix(random, channels, width, shape.density, 1);
    layer.k = RandomMatrix(random, channels, width, shape.density, 1);
    layer.v = RandomMatrix(random, channels, width, shape.density, 1);
    layer.z = RandomMatrix(random, channels, width, shape.density, 1);
    layer.b = RandomMatrix(random, shape.heads, width, shape.density, 1);
    layer.a = RandomMatrix(random, shape.heads, width, shape.density, 1);
    layer.a_log = RandomVector(random, shape.heads, 0, 1);
    layer.dt_bias = RandomVector(random, shape.heads, 0, 1);
    layer.head_norm = RandomVector(random, kHeadDim, 1, 0.5);
    layer.out = RandomMatrix(random, width, channels, shape.density, 0.1);
    layer.post_norm = RandomVector(random, width, 0, 0.5);
    layer.gate = RandomMatrix(random, shape.neurons, width, shape.density, 1);
    layer.up = RandomMatrix(random, shape.neurons, width, shape.density, 1);
    layer.down = RandomMatrix(random, width, shape.neurons, shape.density, 0.3);
    circuit.layers.push_back(std::move(layer));
  }
  circuit.cells["memory"] = {0, 0, 0, kHeadDim, {0, 1, 2, 3}};
  return circuit;
}

Circuit MakeDigitalCircuit(const DigitalShape& shape, uint64_t seed) { return DigitalBuilder(shape, seed).Build(); }

DigitalShape MachineSizedShape() {
  DigitalShape shape;
  shape.layers = 22;
  shape.heads = 11;
  shape.base_hidden = 1024;
  shape.id_bits = 13;
  shape.bits = 330;
  shape.read_bits = 16;
  return shape;
}

}  // namespace qgpu
