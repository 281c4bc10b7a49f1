#include "model/generate/text_generator.h"

#include <limits>

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/generate/stop_text.h"
#include "model/text/test_tokenizer.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int32_t kEndOfText = 256, kStart = 257, kEnd = 258, kTextVocabulary = 261, kMachineIds = 3;

std::shared_ptr<const Tokenizer> Bytes() { return *Tokenizer::Parse(TestTokenizer({}).dump()); }

// Wants to write what it is told to: behind `prompt` positions the first id of `text`, then the second, and so on; all
// others are as likely as each other.
class ScriptedModel : public TextModel {
 public:
  ScriptedModel(int64_t prompt, std::vector<int32_t> text, int64_t room = 10000)
      : prompt_(prompt), text_(std::move(text)), room_(room) {}

  void Reset() override { context.clear(); }
  absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t>) override { return absl::UnimplementedError(""); }
  absl::Status StreamLogits(std::span<const int64_t> ids, const LogitsSink& sink) override {
    QGPU_RETURN_IF_ERROR(CheckIds(ids));
    passes.push_back(static_cast<int64_t>(ids.size()));
    for (const int64_t id : ids) {
      context.push_back(static_cast<int32_t>(id));
      std::vector<float> row(kTextVocabulary + kMachineIds, -1);
      const auto at = static_cast<int64_t>(context.size()) - prompt_;
      if (at >= 0 && at < static_cast<int64_t>(text_.size())) row[static_cast<size_t>(text_[at])] = favour;
      QGPU_RETURN_IF_ERROR(sink(row));
    }
    return absl::OkStatus();
  }
  absl::Status CheckIds(std::span<const int64_t> ids) const override {
    if (static_cast<int64_t>(context.size() + ids.size()) <= room_) return absl::OkStatus();
    return absl::InvalidArgumentError("no room");
  }
  int64_t vocabulary() const override { return kTextVocabulary + kMachineIds; }

  std::vector<int32_t> context;
  std::vector<int64_t> passes;
  float favour = 20;

 private:
  int64_t prompt_;
  std::vector<int32_t> text_;
  int64_t room_;
};

std::vector<int32_t> Ids(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

struct Written {
  absl::StatusOr<GenerateResult> result;
  std::string text;
  std::vector<int32_t> ids;
};

Written Write(ScriptedModel& model, const GenerateOptions& options, const std::vector<int32_t>& prompt = Ids("ab")) {
  TextGenerator generator(model, Bytes(), kTextVocabulary);
  Written written;
  GenerateCallbacks callbacks;
  callbacks.on_text = [&](std::string_view text, std::span<const int32_t> ids) {
    EXPECT_TRUE(CheckUtf8(text, "part").ok());
    written.text += text;
    written.ids.insert(written.ids.end(), ids.begin(), ids.end());
    return absl::OkStatus();
  };
  written.result = generator.Run(prompt, options, callbacks);
  return written;
}

std::vector<int32_t> Joined(std::vector<int32_t> ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

TEST(TextGenerator, WritesUntilTheStopToken) {
  ScriptedModel model(2, Joined(Ids("Hi \u00e9"), {kEnd, 'x'}));
  const Written written = Write(model, {.max_tokens = 100, .stop_tokens = {kEnd}});
  ASSERT_TRUE(written.result.ok()) << written.result.status();
  EXPECT_EQ(written.result->end, GenerateEnd::kStopToken);
  EXPECT_EQ(written.text, "Hi \u00e9");
  EXPECT_EQ(written.ids, Joined(Ids("Hi \u00e9"), {kEnd}));
  EXPECT_EQ(written.result->fed_tokens, 2);
  EXPECT_EQ(written.result->written_tokens, 6);
  EXPECT_EQ(model.context, Joined(Ids("abHi \u00e9"), {kEnd}));
}

TEST(TextGenerator, EndsForEveryReason) {
  {
    ScriptedModel model(2, Ids("Hi"));
    const Written written = Write(model, {.max_tokens = 0});
    EXPECT_EQ(written.result->end, GenerateEnd::kFed);
    EXPECT_EQ(model.context, Ids("ab"));
    EXPECT_THAT(written.ids, IsEmpty());
  }
  for (const bool feed_last : {true, false}) {
    ScriptedModel model(2, Ids("Hi \u00e9"));
    const Written written = Write(model, {.max_tokens = 4, .feed_last = feed_last});
    EXPECT_EQ(written.result->end, GenerateEnd::kMaxTokens);
    EXPECT_EQ(written.text, "Hi \ufffd");  // half a character
    EXPECT_EQ(model.context.size(), feed_last ? 6u : 5u);
  }
  {
    ScriptedModel model(2, Ids("Hello"), /*room=*/4);
    const Written written = Write(model, {.max_tokens = 100});
    EXPECT_EQ(written.result->end, GenerateEnd::kContextFull);
    EXPECT_EQ(written.text, "Hel");  // the last one is known, but has no place
    EXPECT_EQ(written.result->written_tokens, 3);
  }
  {
    ScriptedModel model(2, Joined(Ids("Hi"), {kTextVocabulary + 1}));
    const Written written = Write(model, {.max_tokens = 100});
    EXPECT_EQ(written.result->end, GenerateEnd::kMachineToken);
    EXPECT_EQ(written.text, "Hi");
    EXPECT_EQ(written.ids, Ids("Hi"));
    EXPECT_EQ(model.context, Ids("abHi"));
  }
}

TEST(TextGenerator, AMachineTokenIsNeverSampled) {
  ScriptedModel model(2, std::vector<int32_t>(200, kTextVocabulary + 1));
  GenerateOptions options{.max_tokens = 200};
  options.sampling.temperature = 1;
  const Written written = Write(model, options);
  ASSERT_TRUE(written.result.ok());
  EXPECT_EQ(written.result->end, GenerateEnd::kMaxTokens);
  EXPECT_THAT(written.ids, testing::Each(testing::Lt(kTextVocabulary)));
}

TEST(TextGenerator, NothingOfAStopTextIsShown) {
  struct Case {
    const char *text, *stop, *shown;
  };
  for (const Case& c :
       {Case{"one\nUser: two", "\nUser:", "one"}, Case{"ababac", "abac", "ab"}, Case{"abc", "abcd", "abc"},
        Case{"stop", "stop", ""}, Case{"na\u00efve", "\u00efv", "na"}, Case{"\u00e8\u00e9", "\u00e9", "\u00e8"}}) {
    ScriptedModel model(2, Ids(c.text));
    const Written written =
        Write(model, {.max_tokens = static_cast<int64_t>(std::string(c.text).size()), .stop = {c.stop}});
    ASSERT_TRUE(written.result.ok()) << written.result.status();
    EXPECT_EQ(written.text, c.shown);
    const bool found = std::string(c.text).find(c.stop) != std::string::npos;
    EXPECT_EQ(written.result->end, found ? GenerateEnd::kStopText : GenerateEnd::kMaxTokens);
  }
  ScriptedModel model(2, Joined(Ids("Hi"), {kEndOfText, 'x'}));
  const Written written = Write(model, {.max_tokens = 100, .stop = {"<|endoftext|>"}});
  EXPECT_EQ(written.result->end, GenerateEnd::kStopText);
  EXPECT_EQ(written.text, "Hi");
  ScriptedModel special(2, Joined({'H', kStart}, Ids("i")));
  EXPECT_EQ(Write(special, {.max_tokens = 3}).text, "Hi");  // special tokens are no text
}

TEST(TextGenerator, FeedsLongInputInPassesAndStopsBetweenThem) {
  ScriptedModel model(1200, Ids("Hello"));
  TextGenerator generator(model, Bytes(), kTextVocabulary);
  const std::vector<int32_t> prompt(1200, 'a');
  int64_t asked = 0;
  GenerateCallbacks callbacks;
  callbacks.is_cancelled = [&] { return ++asked > 2; };
  auto result = generator.Run(prompt, {.max_tokens = 5}, callbacks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->end, GenerateEnd::kCancelled);
  EXPECT_EQ(result->fed_tokens, 1024);
  EXPECT_THAT(model.passes, ElementsAre(512, 512));

  model.Reset();
  asked = -3;  // three passes of the input, then two tokens
  result = generator.Run(prompt, {.max_tokens = 5}, callbacks);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->end, GenerateEnd::kCancelled);
  EXPECT_EQ(result->written_tokens, 3);
  EXPECT_EQ(model.context.size(), 1202u);
}

TEST(TextGenerator, ThePenaltyIsForTheWholeContext) {
  ScriptedModel model(2, Ids("aaaa"));
  model.favour = 2;
  GenerateOptions options{.max_tokens = 1, .sampling = {.repetition_penalty = 1.5}};
  TextGenerator generator(model, Bytes(), kTextVocabulary);
  std::vector<int32_t> ids;
  GenerateCallbacks callbacks;
  callbacks.on_text = [&](std::string_view, std::span<const int32_t> more) {
    ids.insert(ids.end(), more.begin(), more.end());
    return absl::OkStatus();
  };
  ASSERT_TRUE(generator.Run(Ids("bc"), options, callbacks).ok());
  EXPECT_EQ(ids, Ids("a"));  // logit 2 against -1
  model.favour = -1.4f;      // after the penalty it is -2.1; others have -1
  model.Reset();
  generator.Reset();
  ids.clear();
  ASSERT_TRUE(generator.Run({{'a', 'b'}}, options, callbacks).ok());
  EXPECT_THAT(ids, ElementsAre(0));  // the first of those that have not occurred
  generator.Reset();
  model.favour = 0.5f;
  model.Reset();
  ids.clear();
  ASSERT_TRUE(generator.Run({{'a', 0}}, options, callbacks).ok());
  EXPECT_THAT(ids, ElementsAre('a'));  // 0.5 / 1.5 is still the best
}

TEST(TextGenerator, RefusesBeforeItFeeds) {
  const auto error = [](const std::vector<int32_t>& prompt, const GenerateOptions& options) {
    ScriptedModel model(2, Ids("Hi"), /*room=*/4);
    const Written written = Write(model, options, prompt);
    EXPECT_THAT(model.context, IsEmpty());
    EXPECT_EQ(written.result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(written.result.status().message());
  };
  EXPECT_THAT(error({'a', kTextVocabulary}, {}), HasSubstr("id 261 (number 2) is none of text: those are 0 to 260"));
  EXPECT_THAT(error({-1}, {}), HasSubstr("id -1"));
  EXPECT_THAT(error(Ids("abcde"), {}), HasSubstr("no room"));
  EXPECT_THAT(error({}, {.max_tokens = 1}), HasSubstr("nothing to go on from"));
  EXPECT_THAT(error(Ids("a"), {.max_tokens = -1}), HasSubstr("max_tokens -1"));
  EXPECT_THAT(error(Ids("a"), {.stop = {""}}), HasSubstr("empty"));
  EXPECT_THAT(error(Ids("a"), {.stop = {"\xff"}}), HasSubstr("UTF-8"));
  EXPECT_THAT(error(Ids("a"), {.sampling = {.repetition_penalty = 0}}), HasSubstr("repetition_penalty 0"));
  EXPECT_THAT(error(Ids("a"), {.sampling = {.min_p = 2}}), HasSubstr("min_p 2"));
}

TEST(TextGenerator, LogitsThatAreNoNumbersAreAnError) {
  ScriptedModel model(2, Ids("Hi"));
  model.favour = std::numeric_limits<float>::quiet_NaN();
  const Written written = Write(model, {.max_tokens = 5});
  EXPECT_EQ(written.result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(written.result.status().message()), HasSubstr("the logit of token 72 is nan"));
}

// However the text is cut into parts, what is shown is the text up to the first stop text.
TEST(StopText, IsTheSameHoweverTheTextIsCut) {
  const uint64_t seed = 20260316;
  for (uint64_t round = 0; round < 20000; ++round) {
    SplitMix64 random(seed + round);
    const auto letters = [&](uint32_t most) {
      std::string text(1 + random.Below(most), 'a');
      for (char& c : text) c = static_cast<char>('a' + random.Below(2));
      return text;
    };
    const std::string text = letters(20);
    std::vector<std::string> stops(random.Below(3));
    for (std::string& stop : stops) stop = letters(5);
    size_t first = std::string::npos;
    for (size_t end = 1; end <= text.size() && first == std::string::npos; ++end) {
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) first = std::min(first, end - stop.size());
      }
    }
    StopText filter(stops);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random.Below(6);
      shown += filter.Push(std::string_view(text).substr(at, size));
      at += size;
      ASSERT_TRUE(text.substr(0, first).starts_with(shown)) << "seed " << seed + round;
    }
    ASSERT_EQ(filter.found(), first != std::string::npos) << "seed " << seed + round;
    ASSERT_EQ(shown + filter.Finish(), text.substr(0, first)) << "seed " << seed + round;
  }
}

}  // namespace
}  // namespace qgpu
