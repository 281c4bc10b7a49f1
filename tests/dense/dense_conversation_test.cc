// Text and launches in one context of the dense form, with the machine's circuit: a launch writes the same trace and
// leaves the same memory and registers whatever text was before it, and text goes on after it.
#include <algorithm>
#include <cmath>

#include "common/prng.h"
#include "evals/drift/texts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"
#include "machine/interpreter/random_launch.h"
#include "model/base/random_base.h"
#include "model/conversation/conversation.h"
#include "model/weights/build_circuit.h"
#include "tests/dense/suite_traces.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

constexpr int64_t kContext = 1200;

class DenseConversation : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    ModelShape shape = EmbeddedBaseShape();
    shape.max_positions = kContext;
    base_ = testing::TempDir() + "/qgpu_dense_conversation";
    ASSERT_TRUE(WriteRandomBase(base_, shape, kEmbeddedBaseSeed).ok());
    const auto circuit = std::make_shared<const Circuit>(BuildCircuit(static_cast<int>(shape.hidden)).value().circuit);
    auto made = MakeDenseConversation(circuit, base_, GetParam());
    ASSERT_TRUE(made.ok()) << made.status();
    conversation_ = *std::move(made);
    demo_ = DotDemo().value();
  }

  std::vector<int64_t> Ids(const std::string& text_name, int64_t positions) {
    const DriftEncoder encoder = DriftEncoder::Open(base_, conversation_->text_vocabulary()).value();
    return encoder.Encode(DriftTextsNamed({text_name}).value()[0], positions).value().ids;
  }
  void ExpectExact(const MachineLaunch& launch) {
    const auto run = conversation_->Launch(HostTokens(launch), 400);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(run->fault.ok()) << run->fault;
    EXPECT_EQ(run->end, LaunchEnd::kDone);
    const CheckReport report = CheckRun(launch, *run);
    EXPECT_TRUE(report.exact()) << FormatCheck(report);
  }
  // A random program of few tokens, since each is a pass through gigabytes.
  static MachineLaunch ShortLaunch(uint64_t seed) {
    for (;; seed += 1000) {
      MachineLaunch launch = RandomLaunch(seed);
      const MachineRun run = Interpret(launch, 200);
      if (run.end == LaunchEnd::kDone && run.tokens.size() >= 12 && run.tokens.size() <= 24) return launch;
    }
  }
  // The logits at the last position, all finite, and never a machine id's the highest.
  std::vector<float> Fed(const std::vector<int64_t>& ids) {
    const size_t width = static_cast<size_t>(conversation_->text().vocabulary());
    const auto logits = conversation_->text().Logits(ids);
    EXPECT_TRUE(logits.ok()) << logits.status();
    if (!logits.ok()) return {};
    EXPECT_EQ(logits->size(), ids.size() * width);
    for (size_t row = 0; row + width <= logits->size(); row += width) {
      const auto begin = logits->begin() + static_cast<std::ptrdiff_t>(row);
      EXPECT_TRUE(std::all_of(begin, begin + width, [](float x) { return std::isfinite(x); }));
      EXPECT_LT(std::max_element(begin, begin + width) - begin, conversation_->text_vocabulary());
    }
    return {logits->end() - static_cast<std::ptrdiff_t>(width), logits->end()};
  }

  std::string base_;
  SuiteTrace demo_;
  std::unique_ptr<Conversation> conversation_;
};
INSTANTIATE_TEST_SUITE_P(Types, DenseConversation, testing::Values(DataType::kFloat32, DataType::kBFloat16),
                         [](const auto& info) { return DataTypeName(info.param); });

// One test for each type, so that its gigabytes are loaded once.
TEST_P(DenseConversation, LaunchesAreExactAfterAnyTextAndTextGoesOn) {
  ExpectExact(ShortLaunch(1));  // without text
  const std::vector<float> after_launch = Fed(Ids("code", 5));
  conversation_->Reset();
  Fed(Ids("prose", 150));
  ExpectExact(demo_.launch);
  Fed(Ids("chat", 5));
  for (const char* text : {"trigger", "numbers"}) {
    SCOPED_TRACE(text);
    conversation_->Reset();
    Fed(Ids(text, 100));
    ExpectExact(ShortLaunch(1));
    EXPECT_NE(Fed(Ids("code", 5)), after_launch) << "what was said before the launch is in the context";
    ExpectExact(ShortLaunch(2));  // the second launch of a conversation
    Fed(Ids("chat", 5));
  }
  conversation_->Reset();
  ExpectExact(ShortLaunch(1));
  EXPECT_EQ(Fed(Ids("code", 5)), after_launch) << "Reset forgets text and launches";

  // A launch has to clear the machine itself, and the base's context counts its tokens.
  std::vector<Token> without_reset(demo_.host.begin() + 1, demo_.host.end());
  EXPECT_TRUE(absl::IsInvalidArgument(conversation_->Launch(without_reset, 10).status()));
  conversation_->Reset();
  SplitMix64 random(1);
  std::vector<int64_t> much(kContext - demo_.host.size() + 1);
  for (int64_t& id : much) id = static_cast<int64_t>(random.Below(259));
  ASSERT_TRUE(conversation_->text().StreamLogits(much, [](auto) { return absl::OkStatus(); }).ok());
  const auto full = conversation_->Launch(demo_.host, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(full.status())) << full.status();
  EXPECT_THAT(std::string(full.status().message()), HasSubstr("max_position_embeddings"));
  much.pop_back();  // room for the host's tokens alone
  conversation_->Reset();
  ASSERT_TRUE(conversation_->text().StreamLogits(much, [](auto) { return absl::OkStatus(); }).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(conversation_->Launch(demo_.host, 1000).status()));
}

}  // namespace
}  // namespace qgpu
