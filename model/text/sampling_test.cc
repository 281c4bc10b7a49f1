#include "model/text/sampling.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/generation_config.h"
#include "model/text/test_tokenizer.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int32_t Next(Sampler& sampler, const std::vector<float>& logits) {
  const auto next = sampler.Next(logits);
  EXPECT_TRUE(next.ok()) << next.status();
  return next.value_or(-1);
}

// How often each index is drawn.
std::vector<double> Shares(const SamplingOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::vector<double> shares(logits.size());
  for (int i = 0; i < draws; ++i) shares[Next(sampler, logits)] += 1.0 / draws;
  return shares;
}

TEST(Sampler, GreedyTakesTheFirstOfTheHighest) {
  Sampler sampler({});
  EXPECT_EQ(Next(sampler, {1, 5, 5, -kInfinity}), 1);
  EXPECT_EQ(Next(sampler, {-kInfinity, -3}), 1);
}

TEST(Sampler, DrawsByProbability) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f), -kInfinity};
  const std::vector<double> plain = Shares({.temperature = 1, .seed = 1}, logits, 40000);
  EXPECT_NEAR(plain[0], 0.125, 0.01);
  EXPECT_NEAR(plain[1], 0.25, 0.01);
  EXPECT_NEAR(plain[2], 0.625, 0.01);
  EXPECT_EQ(plain[3], 0);
  const std::vector<double> cold = Shares({.temperature = 0.5, .seed = 2}, logits, 40000);  // 1 : 4 : 25
  EXPECT_NEAR(cold[1], 4.0 / 30, 0.01);
}

TEST(Sampler, TopKKeepsTies) {
  const std::vector<float> logits = {3, 1, 2, 2, 0};
  const std::vector<double> shares = Shares({.temperature = 1, .top_k = 2, .seed = 3}, logits, 5000);
  EXPECT_GT(shares[2], 0.1);
  EXPECT_GT(shares[3], 0.1);
  EXPECT_EQ(shares[1] + shares[4], 0);
}

TEST(Sampler, TopPKeepsTheSmallestHeadThatReachesIt) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  const std::vector<double> shares = Shares({.temperature = 1, .top_p = 0.7, .seed = 4}, logits, 20000);
  EXPECT_NEAR(shares[0], 0.5 / 0.8, 0.015);
  EXPECT_EQ(shares[2] + shares[3], 0);
  const std::vector<double> one = Shares({.temperature = 1, .top_p = 1e-9, .seed = 5}, logits, 100);
  EXPECT_NEAR(one[0], 1, 1e-9);
}

TEST(Sampler, MinPKeepsWhatIsProbableEnough) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  const std::vector<double> shares = Shares({.temperature = 1, .min_p = 0.31, .seed = 6}, logits, 20000);
  EXPECT_NEAR(shares[0], 0.5 / 0.8, 0.015);
  EXPECT_EQ(shares[2] + shares[3], 0);
  EXPECT_GT(Shares({.temperature = 1, .min_p = 0.29, .seed = 6}, logits, 5000)[2], 0.1);
  EXPECT_EQ(Shares({.temperature = 1, .min_p = 1, .seed = 6}, logits, 100)[1], 0);
}

TEST(Sampler, ThePenaltyIsForIdsThatOccurred) {
  Sampler sampler({.repetition_penalty = 2});
  const auto next = [&](const std::vector<float>& logits, const std::vector<int32_t>& seen) {
    return *sampler.Next(logits, seen);
  };
  EXPECT_EQ(next({3, 2, 1}, {}), 0);
  EXPECT_EQ(next({3, 2, 1}, {0}), 1);
  EXPECT_EQ(next({3, 2, 1}, {0, 1, 1000, -1}), 0);
  EXPECT_EQ(next({-3, -2, -5}, {1}), 0);  // -4
  EXPECT_FALSE(CheckSamplingOptions({.repetition_penalty = 0}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.repetition_penalty = INFINITY}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.min_p = -0.1}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.min_p = NAN}).ok());
}

TEST(Sampler, TheSeedDecidesEverything) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 7919) % 97) / 20;
  const auto draw = [&](uint64_t seed) {
    Sampler sampler({.temperature = 0.8, .top_k = 50, .top_p = 0.95, .seed = seed});
    std::vector<int32_t> drawn;
    for (int i = 0; i < 20; ++i) drawn.push_back(Next(sampler, logits));
    return drawn;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(Sampler, RefusesWhatIsNoDistribution) {
  Sampler sampler({.temperature = 1});
  const auto error = [&](const std::vector<float>& logits) {
    return std::string(sampler.Next(logits).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("no logits"));
  EXPECT_THAT(error({0, NAN}), HasSubstr("token 1 is nan"));
  EXPECT_THAT(error({kInfinity}), HasSubstr("token 0 is inf"));
  EXPECT_THAT(error({-kInfinity, -kInfinity}), HasSubstr("minus infinity"));
  EXPECT_FALSE(CheckSamplingOptions({.temperature = -1}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.temperature = NAN}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.top_k = -1}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.top_p = 0}).ok());
  EXPECT_FALSE(CheckSamplingOptions({.top_p = NAN}).ok());
  EXPECT_TRUE(CheckSamplingOptions({.temperature = 2, .top_k = 1, .top_p = 1}).ok());
}

class GenerationConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/generation_config_test";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    tokenizer_ = *Tokenizer::Parse(TestTokenizer({}).dump());
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + name, text).ok());
  }
  absl::StatusOr<GenerationConfig> Read() { return ReadGenerationConfig(directory_, *tokenizer_); }

  std::string directory_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(GenerationConfigTest, ReadsQwensFile) {
  Write("generation_config.json", R"({"bos_token_id": 256, "do_sample": true, "eos_token_id": [258, 256],
      "pad_token_id": 256, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.1, "min_p": 0.25, "num_beams": 4,
      "transformers_version": "5.0"})");
  const auto config = Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->sampling.temperature, 0.6);
  EXPECT_EQ(config->sampling.top_k, 20);
  EXPECT_EQ(config->sampling.top_p, 0.95);
  EXPECT_THAT(config->stop_tokens, ElementsAre(256, 258));
  EXPECT_THAT(config->ignored, ElementsAre("num_beams"));
  EXPECT_EQ(config->sampling.repetition_penalty, 1.1);
  EXPECT_EQ(config->sampling.min_p, 0.25);
  EXPECT_TRUE(config->IsStop(258));
  EXPECT_FALSE(config->IsStop(257));
}

TEST_F(GenerationConfigTest, TakesStopTokensFromOtherFilesToo) {
  EXPECT_THAT(Read()->stop_tokens, IsEmpty());
  Write("config.json", R"({"text_config": {"eos_token_id": 256}})");
  Write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}})");
  const auto config = Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->stop_tokens, ElementsAre(256, 258));
  EXPECT_EQ(config->sampling.temperature, 0);
}

TEST_F(GenerationConfigTest, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> bad[] = {{R"({"eos_token_id": 999})", "eos_token_id: 999 is no token"},
                                                     {R"({"eos_token_id": -1})", "-1 is no token"},
                                                     {R"({"eos_token_id": "x"})", "neither an id nor a list"},
                                                     {R"({"eos_token_id": [[1]]})", "not a list of ids"},
                                                     {R"({"temperature": -1})", "temperature -1"},
                                                     {R"({"top_k": 1.5})", "top_k: 1.5"},
                                                     {R"({"top_p": "x"})", "top_p: not a number"},
                                                     {R"({"do_sample": 1})", "do_sample"},
                                                     {"[]", "not a JSON object"}};
  for (const auto& [text, message] : bad) {
    Write("generation_config.json", text);
    const auto config = Read();
    EXPECT_THAT(std::string(config.status().message()),
                testing::AllOf(HasSubstr("generation_config.json"), HasSubstr(message)));
  }
}

}  // namespace
}  // namespace qgpu
