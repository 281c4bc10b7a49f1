// The measurement with libtorch's models on a base of the embedded one's shape and a small circuit: both forms, both
// types, and a run that is taken up.
#include <unistd.h>

#include <filesystem>

#include "evals/drift/report.h"
#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/test_circuit.h"
#include "model/weights/synthetic_circuit.h"

namespace qgpu {
namespace {

[[maybe_unused]] const bool kOneThread = (SetTorchThreads(1), true);

class TorchDrift : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fmt::format("{}/torch_drift.{}", testing::TempDir(), getpid());
    base_ = directory_ + "/base";
    const ModelShape shape = EmbeddedBaseShape();
    ASSERT_TRUE(WriteRandomBase(base_, shape, kEmbeddedBaseSeed).ok());
    circuit_ = WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .heads = 1, .base_hidden = 257, .bits = 14}, 5));
    circuit_ = WithUnusedDimensions(circuit_, 768 - circuit_.width);
    circuit_.base_hidden = static_cast<int32_t>(shape.hidden);
    fine_ = LoadTextModel(base_, DataType::kFloat32).value();
    coarse_ = LoadTextModel(base_, DataType::kBFloat16).value();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  DriftMeasurement Fresh() const {
    const auto encoder = DriftEncoder::Open(base_, fine_->vocabulary()).value();
    std::vector<DriftTokens> texts;
    const std::vector<DriftText> named = DriftTextsNamed({"prose", "trigger"}).value();
    for (const DriftText& text : named) {
      texts.push_back(encoder.Encode(text, 200).value());
    }
    return DriftMeasurement({{"test", 1}}, std::move(texts), 72);  // a chunk of the linear layers' rule and a bit
  }
  DriftMeasurement Measured(TextModel& reference, TextModel& merged) const {
    DriftMeasurement measurement = Fresh();
    while (!measurement.complete()) {
      const absl::Status status = measurement.RunChunk({&reference, &merged, fine_.get(), coarse_.get()});
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
    }
    return measurement;
  }
  static bool Within(const DriftMeasurement& measurement, DriftBound bound) {
    const DriftVerdict verdict = JudgeDrift(measurement.drift(), measurement.noise_floor(), bound);
    fmt::print("{}\n", verdict.text);
    return verdict.within;
  }

  std::string directory_, base_;
  Circuit circuit_;
  std::unique_ptr<TextModel> fine_, coarse_;
};

TEST_F(TorchDrift, TheSplitFormIsExactlyTheBase) {
  const auto fine = LoadTextModel(base_, DataType::kFloat32).value();
  const auto coarse = LoadTextModel(base_, DataType::kBFloat16).value();
  EXPECT_TRUE(Within(Measured(*fine_, *fine), DriftBound::kExactlyZero));
  EXPECT_TRUE(Within(Measured(*coarse_, *coarse), DriftBound::kExactlyZero));
  EXPECT_FALSE(Within(Measured(*fine_, *coarse), DriftBound::kExactlyZero));
}

TEST_F(TorchDrift, TheDenseFormInFloat32IsTheBaseToRounding) {
  const auto merged = LoadMergedTextModel(circuit_, base_, DataType::kFloat32).value();
  EXPECT_GT(merged->vocabulary(), fine_->vocabulary());
  const DriftMeasurement measurement = Measured(*fine_, *merged);
  EXPECT_TRUE(Within(measurement, DriftBound::kRounding));
  EXPECT_FALSE(Within(measurement, DriftBound::kExactlyZero)) << "other kernels round otherwise";
  EXPECT_EQ(measurement.drift().Summarize().same_top, 1);
  EXPECT_LT(measurement.drift().Summarize().machine_share_max, 1e-9);
}

TEST_F(TorchDrift, TheDenseFormInBFloat16IsNearTheNoiseFloor) {
  const auto merged = LoadMergedTextModel(circuit_, base_, DataType::kBFloat16).value();
  const DriftMeasurement measurement = Measured(*fine_, *merged);
  EXPECT_TRUE(Within(measurement, DriftBound::kTimesNoiseFloor));
  EXPECT_FALSE(Within(measurement, DriftBound::kRounding));
}

TEST_F(TorchDrift, TakenUpInTheMiddleOfATextItGivesTheSameNumbers) {
  const auto merged = LoadMergedTextModel(circuit_, base_, DataType::kBFloat16).value();
  const DriftMeasurement whole = Measured(*fine_, *merged);
  const DriftModels models = {fine_.get(), merged.get(), fine_.get(), coarse_.get()};
  const std::string path = directory_ + "/drift.json";
  for (bool ended = false; !ended;) {
    DriftMeasurement one = Fresh();  // one chunk a run
    ASSERT_TRUE(one.Resume(path).ok());
    ASSERT_TRUE(one.RunChunk(models).ok());
    ASSERT_TRUE(one.Save(path).ok());
    ended = one.complete();
  }
  DriftMeasurement joined = Fresh();
  ASSERT_TRUE(joined.Resume(path).ok());
  EXPECT_EQ(joined.drift().ToJson().dump(), whole.drift().ToJson().dump());
  EXPECT_EQ(joined.noise_floor().ToJson().dump(), whole.noise_floor().ToJson().dump());
}

TEST_F(TorchDrift, TheMergedModelRunsInItsTypesOnly) {
  EXPECT_TRUE(absl::IsInvalidArgument(LoadMergedTextModel(circuit_, base_, DataType::kFloat16).status()));
  circuit_.base_hidden += 1;
  EXPECT_TRUE(absl::IsInvalidArgument(LoadMergedTextModel(circuit_, base_, DataType::kFloat32).status()));
}

}  // namespace
}  // namespace qgpu
