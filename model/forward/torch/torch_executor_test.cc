#include "model/forward/torch/torch_executor.h"

#include <cmath>
#include <set>

#include "ATen/ATen.h"
#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/forward/torch/gated_delta.h"
#include "model/forward/torch/test_models.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

// The tests run beside others on few cores, and their products are small.
[[maybe_unused]] const bool kOneThread = (SetTorchThreads(1), true);

constexpr int64_t kPositions = 300;  // several chunks and a part of one
constexpr uint64_t kSeed = 5;        // of a circuit whose free run visits more than ten ids

DeltaInput Slice(const DeltaInput& all, int64_t begin, int64_t end) {
  return {all.q.slice(1, begin, end), all.k.slice(1, begin, end), all.v.slice(1, begin, end),
          all.beta.slice(1, begin, end), all.g.slice(1, begin, end)};
}

// Outputs of feeding `all` in passes of `length` positions; `state` ends as the last one.
Tensor RunInPasses(const DeltaInput& all, int64_t length, Tensor& state) {
  std::vector<Tensor> outputs;
  for (int64_t at = 0; at < all.k.size(1); at += length) {
    const DeltaInput pass = Slice(all, at, std::min(at + length, all.k.size(1)));
    outputs.push_back(pass.k.size(1) == 1 ? GatedDeltaStep(pass, state) : GatedDeltaChunks(pass, state));
  }
  return at::cat(outputs, 1);
}

TEST(GatedDelta, ChunksAndStepsAgreeOnArbitraryValues) {
  at::manual_seed(1);
  const DeltaInput all = {at::randn({3, kPositions, 24}), at::randn({3, kPositions, 24}),
                          at::randn({3, kPositions, 40}), at::rand({3, kPositions}), -at::rand({3, kPositions}) * 0.3};
  Tensor expected_state = at::zeros({3, 24, 40});
  const Tensor expected = RunInPasses(all, 1, expected_state);
  for (int64_t length : {kPositions, int64_t{64}, int64_t{37}}) {
    Tensor state = at::zeros({3, 24, 40});
    EXPECT_TRUE(at::allclose(RunInPasses(all, length, state), expected, 1e-4, 1e-5)) << length;
    EXPECT_TRUE(at::allclose(state, expected_state, 1e-4, 1e-5)) << length;
  }
}

// One head as 128 words of 64 bits on two rails: random writes, reads and clears, against a plain array.
TEST(GatedDelta, MemoryCellsAreExactInChunksAndInSteps) {
  SplitMix64 random(2);
  const int64_t positions = 2000;
  DeltaInput all = {at::zeros({1, positions, 128}), at::zeros({1, positions, 128}), at::zeros({1, positions, 128}),
                    at::zeros({1, positions}), at::full({1, positions}, -3.8e-44)};
  std::vector<std::vector<float>> memory(128, std::vector<float>(128, 0));
  Tensor expected = at::zeros({positions, 128});
  for (int64_t t = 0; t < positions; ++t) {
    if (random.Below(150) == 0) {
      all.g[0][t] = random.Below(2) == 0 ? -200.0 : -10000.0;
      for (auto& row : memory) row.assign(128, 0);
    }
    const int64_t written = random.Below(128), read = random.Below(2) == 0 ? written : random.Below(128);
    all.k[0][t][written] = 128;
    all.q[0][t][read] = 128;
    const bool writes = random.Below(3) != 0;
    all.beta[0][t] = writes ? 1.0 : 0.0;
    for (int64_t bit = 0; bit < 64; ++bit) {
      const int64_t on = random.Below(2) == 0 ? bit : bit + 64;
      all.v[0][t][on] = 128;
      if (writes) memory[written][on] = 128, memory[written][(on + 64) % 128] = 0;
    }
    std::copy(memory[read].begin(), memory[read].end(), expected[t].data_ptr<float>());
  }
  const Tensor word = at::from_blob(memory[5].data(), {128}, at::kFloat);
  for (int64_t length : {positions, int64_t{64}, int64_t{1}}) {
    Tensor state = at::zeros({1, 128, 128});
    const Tensor read = RunInPasses(all, length, state)[0] * std::sqrt(128.0);
    EXPECT_LT((read - expected).abs().max().item<float>(), 1e-4) << length;
    EXPECT_TRUE(at::equal(state[0][5], word)) << length;
  }
}

struct Setting {
  ModelForm form;
  DataType type;
};
constexpr Setting kSettings[] = {{ModelForm::kSplit, DataType::kFloat32},
                                 {ModelForm::kSplit, DataType::kBFloat16},
                                 {ModelForm::kDense, DataType::kFloat32},
                                 {ModelForm::kDense, DataType::kBFloat16}};

// Greedy decoding from a short prompt.
std::vector<int32_t> FreeRun(Executor& executor, int32_t steps) {
  std::vector<int32_t> ids = {0, 3, 14, 15};
  int32_t next = executor.Feed(ids).value().back();
  for (int32_t i = 0; i < steps; ++i) {
    ids.push_back(next);
    next = executor.Feed(std::span(&next, 1)).value()[0];
  }
  return ids;
}

TEST(TorchExecutor, FormsAndTypesWriteTheSameTokensAndStates) {
  const Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.base_hidden = 65, .id_bits = 8}, kSeed));
  const std::string base = WriteTestBase(SmallBaseShape(circuit.base_hidden));
  std::vector<int32_t> expected;
  std::vector<float> expected_state;
  for (const Setting& setting : kSettings) {
    auto made = MakeTorchExecutor(circuit, base, setting.form, setting.type);
    ASSERT_TRUE(made.ok()) << made.status();
    Executor& executor = **made;
    const std::vector<int32_t> ids = FreeRun(executor, 150);
    const std::vector<float> state = executor.ReadState(1, 1).value();
    if (expected.empty()) {
      expected = ids;
      expected_state = state;
      EXPECT_GT(std::set<int32_t>(ids.begin(), ids.end()).size(), 20u) << "the walk should see many ids";
    }
    EXPECT_EQ(ids, expected) << executor.Description();
    for (size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], expected_state[i], 0.01) << executor.Description();

    executor.Reset();
    const std::vector<int32_t> next = executor.Feed(ids).value();  // teacher-forced, in one pass
    EXPECT_TRUE(std::equal(next.begin() + 3, next.end() - 1, ids.begin() + 4)) << executor.Description();
    EXPECT_THAT(executor.ReadState(1, 1).value(), testing::Pointwise(testing::FloatNear(0.01f), expected_state));
  }
}

TEST(TorchExecutor, RandomIdsHaveTheSameSuccessorsInEveryFormTypeAndPassLength) {
  const Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.layers = 4, .base_hidden = 65}, 21));
  const std::string base = WriteTestBase(SmallBaseShape(circuit.base_hidden));
  SplitMix64 random(4);
  std::vector<int32_t> ids(kPositions / 2);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(20) == 0 ? 0 : random.Below(64));
  std::vector<int32_t> expected;
  for (const Setting& setting : kSettings) {
    auto executor = MakeTorchExecutor(circuit, base, setting.form, setting.type).value();
    for (size_t length : {ids.size(), size_t{1}, size_t{65}}) {
      executor->Reset();
      std::vector<int32_t> next;
      for (size_t at = 0; at < ids.size(); at += length) {
        const auto part = executor->Feed(std::span(ids).subspan(at, std::min(length, ids.size() - at))).value();
        next.insert(next.end(), part.begin(), part.end());
      }
      if (expected.empty()) expected = next;
      EXPECT_EQ(next, expected) << executor->Description() << ", passes of " << length;
    }
  }
  EXPECT_GT(std::set<int32_t>(expected.begin(), expected.end()).size(), 20u);
}

TEST(TorchExecutor, LayersWithoutHeadsOrNeuronsPassTheResidualOn) {
  Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .heads = 1, .base_hidden = 65}, 3));
  const std::string base = WriteTestBase(SmallBaseShape(circuit.base_hidden));
  auto before = MakeTorchExecutor(circuit, base, ModelForm::kSplit, DataType::kFloat32).value();
  const std::vector<int32_t> expected = FreeRun(*before, 40);
  CircuitLayer empty;
  empty.input_norm = empty.post_norm = circuit.layers[0].input_norm;
  empty.head_norm = circuit.layers[0].head_norm;
  for (SparseMatrix* matrix : {&empty.q, &empty.k, &empty.v, &empty.z, &empty.b, &empty.a, &empty.gate, &empty.up}) {
    matrix->cols = circuit.width;
  }
  empty.out.rows = empty.down.rows = circuit.width;
  circuit.layers.insert(circuit.layers.begin() + 1, empty);
  for (const Setting& setting : kSettings) {
    auto executor = MakeTorchExecutor(circuit, base, setting.form, setting.type).value();
    EXPECT_EQ(FreeRun(*executor, 40), expected) << executor->Description();
  }
}

// Machine tokens and text on one model: the machine takes no notice of the text, both count as positions.
TEST(TorchExecutor, OneDenseModelRunsBothMachineTokensAndText) {
  const Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .base_hidden = 65, .bits = 24}, 6));
  ModelShape shape = SmallBaseShape(circuit.base_hidden);
  shape.max_positions = 400;
  const std::string base = WriteTestBase(shape);
  SplitMix64 random(7);
  std::vector<int32_t> ids(150);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(64));
  ids[0] = 0;  // clears every cell
  std::vector<int64_t> text(90);
  for (int64_t& id : text) id = static_cast<int64_t>(random.Below(300));
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    SCOPED_TRACE(DataTypeName(type));
    DenseModel model = LoadDenseModel(circuit, base, type).value();
    EXPECT_EQ(model.first_machine_token, 300);
    const std::vector<int32_t> expected = model.machine->Feed(ids).value();
    const std::vector<float> state = model.machine->ReadState(1, 0).value();
    const std::vector<float> after = model.text->Logits(text).value();
    EXPECT_EQ(model.machine->Feed(ids).value(), expected) << "after text and machine tokens";
    EXPECT_EQ(model.machine->ReadState(1, 0).value(), state);

    model.text->Reset();  // both
    const std::vector<float> alone = model.text->Logits(text).value();
    EXPECT_NE(after, alone);
    model.machine->Reset();
    const std::vector<float> next = model.text->NextLogits(text).value();
    ASSERT_EQ(next.size(), static_cast<size_t>(model.text->vocabulary()));
    for (size_t i = 0; i < next.size(); ++i) {
      ASSERT_NEAR(next[i], alone[alone.size() - next.size() + i], type == DataType::kFloat32 ? 1e-4 : 0.1);
    }
    EXPECT_EQ(alone, LoadMergedTextModel(circuit, base, type).value()->Logits(text).value());
    EXPECT_EQ(model.machine->Feed(ids).value(), expected) << "after text";
    EXPECT_EQ(model.machine->ReadState(1, 0).value(), state);
    const auto full = model.machine->Feed(std::vector<int32_t>(161, 5));
    EXPECT_THAT(std::string(full.status().message()), HasSubstr("401 positions are more than the model's 400"));
    EXPECT_TRUE(model.text->Logits(text).ok());
    EXPECT_TRUE(model.text->Logits(std::span(text).first(70)).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(model.text->Logits(std::span(text).first(1)).status()));
    model.machine->Reset();
    EXPECT_EQ(model.text->Logits(text).value(), alone);
    model.machine->Reset();
    EXPECT_TRUE(model.machine->Feed(std::vector<int32_t>(401, 5)).ok()) << "a launch alone";
    EXPECT_TRUE(absl::IsInvalidArgument(model.text->Logits(text).status()));
  }
}

TEST(TorchExecutor, RefusesWhatItCannotRun) {
  const Circuit circuit = WithFreeTextFlag(MakeDigitalCircuit({.layers = 1, .base_hidden = 65}, 1));
  const auto error = [&](const Circuit& c, const std::string& base, DataType type, const std::string& device) {
    auto executor = MakeTorchExecutor(c, base, ModelForm::kDense, type, device);
    return executor.ok() ? "made" : std::string(executor.status().message());
  };
  const std::string base = WriteTestBase(SmallBaseShape(circuit.base_hidden));
  EXPECT_EQ(error(circuit, base, DataType::kFloat32, "cpu"), "made");
  EXPECT_THAT(error(circuit, base, DataType::kFloat16, "cpu"), HasSubstr("float16"));
  EXPECT_THAT(error(circuit, base, DataType::kFloat32, "abacus"), HasSubstr("abacus"));
  EXPECT_THAT(error(circuit, base + "/none", DataType::kFloat32, "cpu"), HasSubstr("config.json"));
  Circuit other = circuit;
  other.base_hidden = 63;
  EXPECT_THAT(error(other, base, DataType::kFloat32, "cpu"), HasSubstr("built for a base of hidden size 63"));
  auto executor = MakeTorchExecutor(circuit, base, ModelForm::kSplit, DataType::kFloat32).value();
  EXPECT_FALSE(executor->Feed(std::vector<int32_t>{64}).ok());
  EXPECT_FALSE(executor->Feed(std::vector<int32_t>{-1}).ok());
  EXPECT_FALSE(executor->ReadState(0, 2).ok());
  EXPECT_FALSE(executor->ReadState(1, 0).ok());
}

}  // namespace
}  // namespace qgpu
