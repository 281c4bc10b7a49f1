#include "model/forward/sparse/sparse_executor.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "common/prng.h"
#include "gtest/gtest.h"
#include "model/forward/sparse/dense_reference.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16};

int32_t Argmax(const std::vector<double>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double Margin(std::vector<double> logits) {
  std::sort(logits.rbegin(), logits.rend());
  return logits[0] - logits[1];
}

double WorstStateDifference(Executor& executor, const DenseReference& reference, const Circuit& circuit) {
  double worst = 0;
  for (size_t layer = 0; layer < circuit.layers.size(); ++layer) {
    for (int head = 0; head < circuit.layers[layer].heads; ++head) {
      const std::vector<float> state = executor.ReadState(static_cast<int>(layer), head).value();
      const std::vector<double>& expected = reference.State(static_cast<int>(layer), head);
      for (size_t i = 0; i < state.size(); ++i) worst = std::max(worst, std::abs(state[i] - expected[i]));
    }
  }
  return worst;
}

// Nothing here is 0 or 1: norms, activations, decays and the delta rule themselves are compared.
TEST(SparseExecutor, AnalogCircuitsAgreeWithTheDenseReference) {
  for (const DataType type : kTypes) {
    // bfloat16 rounds a sum that ends between two values either way, and layers pass that on.
    const double tolerance = type == DataType::kFloat32 ? 2e-4 : 0.15;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const Circuit circuit = MakeAnalogCircuit({}, seed);
      const std::unique_ptr<Executor> executor = MakeSparseExecutor(std::make_shared<Circuit>(circuit), type);
      DenseReference reference(circuit, type);
      SplitMix64 random(seed);
      int compared = 0;
      for (int position = 0; position < 24; ++position) {
        const int32_t id = static_cast<int32_t>(random.Below(circuit.embedding.rows));
        const std::vector<double> logits = reference.Step(id);
        const int32_t next = executor->Feed(std::span(&id, 1)).value()[0];
        if (Margin(logits) < tolerance) continue;
        ++compared;
        EXPECT_EQ(next, Argmax(logits)) << "seed " << seed << " position " << position;
      }
      EXPECT_GT(compared, 12);
      EXPECT_LT(WorstStateDifference(*executor, reference, circuit), tolerance) << "seed " << seed;
    }
  }
}

TEST(SparseExecutor, DigitalCircuitsAreExact) {
  for (const DataType type : kTypes) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Circuit circuit = MakeDigitalCircuit({}, seed);
      const std::unique_ptr<Executor> executor = MakeMarginWatchingExecutor(std::make_shared<Circuit>(circuit), type);
      DenseReference reference(circuit, type);
      SplitMix64 random(seed);
      int32_t id = 0;
      for (int position = 0; position < 60; ++position) {
        const std::vector<double> logits = reference.Step(id);
        const int32_t next = executor->Feed(std::span(&id, 1)).value()[0];
        ASSERT_EQ(next, Argmax(logits)) << "seed " << seed << " position " << position;
        id = position % 3 == 2 ? static_cast<int32_t>(random.Below(circuit.embedding.rows)) : next;
      }
      const double tolerance = type == DataType::kBFloat16 ? 1e-7 : 2e-3;  // values are 128
      EXPECT_LE(WorstStateDifference(*executor, reference, circuit), tolerance) << "seed " << seed;
      EXPECT_GT(SmallestMargin(*executor), 0.12);  // one bit of the id is 32 / 2^8
    }
  }
}

TEST(SparseExecutor, ManyTokensAtOnceAreTheSameAsOneByOne) {
  const auto circuit = std::make_shared<Circuit>(MakeDigitalCircuit({}, 5));
  const std::vector<int32_t> ids = {0, 5, 9, 33, 2, 63, 17, 17, 4};
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, type);
    const std::vector<int32_t> together = executor->Feed(ids).value();
    const std::vector<float> state = executor->ReadState(1, 1).value();
    executor->Reset();
    EXPECT_EQ(executor->ReadState(1, 1).value(), std::vector<float>(kHeadDim * kHeadDim));
    std::vector<int32_t> single;
    for (const int32_t id : ids) single.push_back(executor->Feed(std::span(&id, 1)).value()[0]);
    EXPECT_EQ(single, together);
    EXPECT_EQ(executor->ReadState(1, 1).value(), state);
  }
}

TEST(SparseExecutor, BadIdsAndHeadsAreErrorsThatChangeNothing) {
  const auto circuit = std::make_shared<Circuit>(MakeDigitalCircuit({}, 5));
  const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, DataType::kFloat32);
  const std::vector<int32_t> bad = {3, 64};
  EXPECT_EQ(executor->Feed(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor->ReadState(0, 0).value(), std::vector<float>(kHeadDim * kHeadDim));
  const std::vector<int32_t> negative = {-1};
  EXPECT_EQ(executor->Feed(negative).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor->ReadState(3, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor->ReadState(0, 2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor->Description(), "sparse split float32");
}

// Hand-made circuits: one layer whose residual is [constant | input bits | answer bits]. Input ids carry bits; answer
// ids, behind them, have rows such that every wrong answer bit costs 1 in the logit, if the first answer bit ("valid")
// is set; an answer of all zeros therefore shows as id 0.
class HandMade {
 public:
  HandMade(int input_bits, int answer_bits) : inputs_(input_bits) {
    circuit_.format_version = kCircuitFormatVersion;
    circuit_.norm_log2 = 8;
    circuit_.width = 1 + input_bits + answer_bits;
    circuit_.base_hidden = 64 - circuit_.width;  // H = 64: one constant of 2^8 * 8
    circuit_.layers.resize(1);
    CircuitLayer& layer = circuit_.layers[0];
    layer.input_norm.assign(circuit_.width, 255);
    layer.input_norm[0] = 1.0f / 8 - 1;
    layer.post_norm = layer.input_norm;
    layer.head_norm.assign(kHeadDim, std::sqrt(0.5f));
    circuit_.final_norm.assign(circuit_.width, -1);
    for (int i = 0; i < answer_bits; ++i) circuit_.final_norm[Answer(i)] = 31;
    SparseMatrixBuilder embedding;
    for (int id = 0; id < 1 << input_bits; ++id) {
      embedding.Add(id, 0, 2048);
      for (int i = 0; i < input_bits; ++i) embedding.Add(id, Input(i), id >> i & 1);
    }
    for (uint32_t answer = 0; answer < 1u << (answer_bits - 1); ++answer) {
      embedding.Add(AnswerId(answer), Answer(0), answer_bits - std::popcount(answer));
      for (int i = 1; i < answer_bits; ++i) {
        if (answer >> (i - 1) & 1) embedding.Add(AnswerId(answer), Answer(i), 2);
      }
    }
    circuit_.embedding = embedding.Finish((1 << input_bits) + (1 << (answer_bits - 1)), circuit_.width);
  }

  int Input(int i) const { return 1 + i; }
  int Answer(int i) const { return 1 + inputs_ + i; }
  int32_t AnswerId(uint32_t answer) const { return (1 << inputs_) + static_cast<int32_t>(answer); }

  // scale (sum of literals - (count - offset)); sign i of `plain`
  void AddSum(SparseMatrixBuilder& matrix, int row, const std::vector<int>& inputs, uint32_t plain, double scale,
              double threshold) const {
    double bias = -threshold;
    for (size_t i = 0; i < inputs.size(); ++i) {
      matrix.Add(row, Input(inputs[i]), plain >> i & 1 ? scale : -scale);
      if (!(plain >> i & 1)) bias += 1;
    }
    matrix.Add(row, 0, scale * bias);
  }
  void AddAnd(SparseMatrixBuilder& matrix, int row, const std::vector<int>& inputs, uint32_t plain) const {
    AddSum(matrix, row, inputs, plain, 256, static_cast<double>(inputs.size()) - 0.5);
  }

  // The matrices of the mixer and of the MLP that were not given stay empty.
  void SetMixer(const SparseMatrixBuilder& q, const SparseMatrixBuilder& k, const SparseMatrixBuilder& v,
                const SparseMatrixBuilder& b, const SparseMatrixBuilder& a, const SparseMatrixBuilder& out) {
    CircuitLayer& layer = circuit_.layers[0];
    SparseMatrixBuilder z;
    for (int i = 0; i < kHeadDim; ++i) z.Add(i, 0, 128);
    layer.heads = 1;
    layer.q = q.Finish(kHeadDim, circuit_.width);
    layer.k = k.Finish(kHeadDim, circuit_.width);
    layer.v = v.Finish(kHeadDim, circuit_.width);
    layer.z = z.Finish(kHeadDim, circuit_.width);
    layer.b = b.Finish(1, circuit_.width);
    layer.a = a.Finish(1, circuit_.width);
    layer.out = out.Finish(circuit_.width, kHeadDim);
    layer.a_log = {0};
    layer.dt_bias = {-100};
  }
  void SetMlp(int neurons, const SparseMatrixBuilder& gate, const SparseMatrixBuilder& up,
              const SparseMatrixBuilder& down) {
    CircuitLayer& layer = circuit_.layers[0];
    layer.neurons = neurons;
    layer.gate = gate.Finish(neurons, circuit_.width);
    layer.up = up.Finish(neurons, circuit_.width);
    layer.down = down.Finish(circuit_.width, neurons);
  }

  std::shared_ptr<const Circuit> Finish() const {
    Circuit circuit = circuit_;
    if (circuit.layers[0].heads == 0) {
      SparseMatrixBuilder none;
      CircuitLayer& layer = circuit.layers[0];
      layer.q = layer.k = layer.v = layer.z = layer.b = layer.a = none.Finish(0, circuit.width);
      layer.out = none.Finish(circuit.width, 0);
    }
    if (circuit.layers[0].neurons == 0) {
      CircuitLayer& layer = circuit.layers[0];
      layer.gate = layer.up = SparseMatrixBuilder().Finish(0, circuit.width);
      layer.down = SparseMatrixBuilder().Finish(circuit.width, 0);
    }
    EXPECT_EQ(ValidateCircuit(circuit).message(), "");
    return std::make_shared<const Circuit>(std::move(circuit));
  }

 private:
  int inputs_;
  Circuit circuit_;
};

// A memory of 8 words of 4 bits on two rails. Input: reset 1, write 1, write address 3, read 1, read address 3, data 4.
TEST(SparseExecutor, MemoryCellWritesReadsForwardsAndResets) {
  HandMade hand(13, 6);
  SparseMatrixBuilder q, k, v, b, a, out;
  for (uint32_t row = 0; row < 8; ++row) {
    hand.AddAnd(k, static_cast<int>(row), {2, 3, 4}, row);
    hand.AddAnd(q, static_cast<int>(row), {6, 7, 8, 5}, row | 8);
  }
  for (int i = 0; i < 64; ++i) {
    if (i < 4) {
      hand.AddAnd(v, i, {9 + i}, 1);
      hand.AddAnd(v, i + 64, {9 + i}, 0);
    } else {
      v.Add(i, 0, 128);  // a constant rail; dimension 4 serves as "valid"
    }
    if (i < 5) out.Add(hand.Answer(i == 4 ? 0 : i + 1), i, 1.0 / 128);
  }
  b.Add(0, 0, -112);
  b.Add(0, hand.Input(1), 152);
  a.Add(0, hand.Input(0), 8192);
  hand.SetMixer(q, k, v, b, a, out);
  const std::shared_ptr<const Circuit> circuit = hand.Finish();
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, type);
    std::map<uint32_t, uint32_t> memory;
    SplitMix64 random(7);
    int reads = 0, forwarded = 0, unwritten = 0;
    for (int position = 0; position < 4000; ++position) {
      const bool reset = position % 97 == 96, write = random.Below(2) == 0, read = random.Below(4) != 0;
      const uint32_t to = random.Below(8), from = random.Below(3) == 0 ? to : random.Below(8), data = random.Below(16);
      if (reset) memory.clear();
      if (write) memory[to] = data;
      const int32_t id = static_cast<int32_t>(uint32_t{reset} | uint32_t{write} << 1 | to << 2 | uint32_t{read} << 5 |
                                              from << 6 | data << 9);
      const int32_t next = executor->Feed(std::span(&id, 1)).value()[0];
      const bool found = read && memory.contains(from);
      ASSERT_EQ(next, found ? hand.AnswerId(memory[from]) : 0) << "position " << position;
      reads += found;
      forwarded += found && write && to == from;
      unwritten += read && !found;
    }
    EXPECT_GT(reads, 1000);
    EXPECT_GT(forwarded, 300);
    EXPECT_GT(unwritten, 20);
    const std::vector<float> state = executor->ReadState(0, 0).value();
    for (const auto& [row, word] : memory) {
      for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(state[row * kHeadDim + i], word >> i & 1 ? 128 : 0, 1e-3);
        EXPECT_NEAR(state[row * kHeadDim + i + 64], word >> i & 1 ? 0 : 128, 1e-3);
      }
    }
  }
}

// All inputs of six bits: an AND with two negations, and the bits of their sum from steps.
TEST(SparseExecutor, AndAndStepNeurons) {
  HandMade hand(6, 5);
  SparseMatrixBuilder gate, up, down;
  int neuron = 0;
  gate.Add(neuron, 0, 128);  // "valid"
  up.Add(neuron, 0, 1.0 / 128);
  down.Add(hand.Answer(0), neuron++, 1);
  hand.AddAnd(gate, neuron, {0, 1, 3, 5}, 0b0110);
  up.Add(neuron, 0, 1.0 / 128);
  down.Add(hand.Answer(1), neuron++, 1);
  for (int t = 1; t <= 6; ++t) {
    for (int side = 0; side < 2; ++side) {
      hand.AddSum(gate, neuron, {0, 1, 2, 3, 4, 5}, 63, 512, side == 0 ? t - 0.75 : t - 0.25);
      up.Add(neuron, 0, 2.0 / 512);
      for (int bit = 0; bit < 3; ++bit) {
        const int change = (t >> bit & 1) - ((t - 1) >> bit & 1);
        if (change != 0) down.Add(hand.Answer(2 + bit), neuron, side == 0 ? change : -change);
      }
      ++neuron;
    }
  }
  hand.SetMlp(neuron, gate, up, down);
  const std::shared_ptr<const Circuit> circuit = hand.Finish();
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeMarginWatchingExecutor(circuit, type);
    for (int32_t id = 0; id < 64; ++id) {
      const uint32_t both = !(id & 1) && (id & 2) && (id & 8) && !(id & 32);
      const uint32_t count = static_cast<uint32_t>(std::popcount(static_cast<uint32_t>(id)));
      EXPECT_EQ(executor->Feed(std::span(&id, 1)).value()[0], hand.AnswerId(both | count << 1)) << id;
    }
    EXPECT_GT(SmallestMargin(*executor), 0.12);
  }
}

}  // namespace
}  // namespace qgpu
