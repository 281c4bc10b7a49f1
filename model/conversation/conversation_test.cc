// The split form with the machine's circuit and a small base: text and launches do not notice each other. The dense
// form with the machine's circuit takes gigabytes: tests/dense.
#include "model/conversation/conversation.h"

#include <unistd.h>

#include <filesystem>

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/random_launch.h"
#include "model/base/random_base.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/forward/torch/torch_executor.h"
#include "model/weights/build_circuit.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

[[maybe_unused]] const bool kOneThread = (SetTorchThreads(1), true);

constexpr int64_t kContext = 400;

std::vector<int64_t> SomeText(int64_t count, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.Below(259));
  return ids;
}

class SplitConversation : public testing::TestWithParam<DataType> {
 protected:
  static void SetUpTestSuite() {
    circuit_ = new std::shared_ptr<const Circuit>(
        std::make_shared<const Circuit>(BuildCircuit(static_cast<int>(EmbeddedBaseShape().hidden)).value().circuit));
    base_ = fmt::format("{}/split_conversation.{}", testing::TempDir(), getpid());
    ModelShape shape = EmbeddedBaseShape();
    shape.max_positions = kContext;
    ASSERT_TRUE(WriteRandomBase(base_, shape, kEmbeddedBaseSeed).ok());
  }
  static void TearDownTestSuite() {
    std::filesystem::remove_all(base_);
    delete circuit_;
  }
  void SetUp() override {
    conversation_ = MakeSplitConversation(LoadTextModel(base_, GetParam()).value(),
                                          MakeSparseExecutor(*circuit_, GetParam()), *circuit_);
  }

  void ExpectExactLaunch(uint64_t seed) {
    const MachineLaunch launch = RandomLaunch(seed);
    const auto run = conversation_->Launch(HostTokens(launch), 200);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(run->fault.ok()) << run->fault;
    const CheckReport report = CheckRun(launch, *run);
    EXPECT_TRUE(report.exact()) << FormatCheck(report);
    EXPECT_GT(report.positions_checked, 5);
  }
  std::vector<float> Logits(const std::vector<int64_t>& ids) { return conversation_->text().Logits(ids).value(); }

  static std::shared_ptr<const Circuit>* circuit_;
  static std::string base_;
  std::unique_ptr<Conversation> conversation_;
};
std::shared_ptr<const Circuit>* SplitConversation::circuit_ = nullptr;
std::string SplitConversation::base_;
INSTANTIATE_TEST_SUITE_P(Types, SplitConversation, testing::Values(DataType::kFloat32, DataType::kBFloat16),
                         [](const auto& info) { return DataTypeName(info.param); });

TEST_P(SplitConversation, TextIsBitForBitThatOfAConversationWithoutLaunches) {
  EXPECT_EQ(conversation_->text_vocabulary(), EmbeddedBaseShape().vocabulary);
  const std::vector<int64_t> first = SomeText(90, 1), second = SomeText(1, 2), third = SomeText(70, 3);
  std::vector<std::vector<float>> expected;
  for (const auto* part : {&first, &second, &third}) expected.push_back(Logits(*part));
  conversation_->Reset();
  ExpectExactLaunch(11);
  EXPECT_EQ(Logits(first), expected[0]);
  ExpectExactLaunch(12);
  EXPECT_EQ(Logits(second), expected[1]);
  ExpectExactLaunch(13);
  ExpectExactLaunch(14);
  EXPECT_EQ(Logits(third), expected[2]);
  EXPECT_NE(Logits(third), expected[2]) << "text should depend on the text before it";
}

TEST_P(SplitConversation, ResetForgetsTheText) {
  const std::vector<float> first = Logits(SomeText(3, 1));
  conversation_->Reset();
  EXPECT_EQ(Logits(SomeText(3, 1)), first);
  conversation_->text().Reset();
  EXPECT_EQ(Logits(SomeText(3, 1)), first);
}

TEST_P(SplitConversation, TextIsLimitedToTheBasesContextAndLaunchesAreNot) {
  const auto too_many = conversation_->text().Logits(SomeText(kContext + 1, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(too_many.status()));
  EXPECT_THAT(std::string(too_many.status().message()), HasSubstr("401 positions are more than the model's 400"));
  ASSERT_TRUE(conversation_->text().Logits(SomeText(kContext, 1)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(conversation_->text().Logits(SomeText(1, 1)).status()));
  ExpectExactLaunch(15);
  conversation_->Reset();
  EXPECT_TRUE(conversation_->text().Logits(SomeText(1, 1)).ok());
}

TEST_P(SplitConversation, ALaunchThatIsStoppedLeavesTheTextAsItWas) {
  const std::vector<int64_t> first = SomeText(20, 1), second = SomeText(20, 2);
  Logits(first);
  const std::vector<float> expected = Logits(second);
  conversation_->Reset();
  Logits(first);
  const auto stopped = conversation_->Launch(HostTokens(RandomLaunch(16)), 200, [](int32_t) { return false; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status()));
  EXPECT_EQ(Logits(second), expected);
  ExpectExactLaunch(16);
}

}  // namespace
}  // namespace qgpu
