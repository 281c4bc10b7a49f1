#include "model/text/tokenizer.h"

#include <chrono>

#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/byte_tokenizer.h"
#include "model/text/byte_level.h"
#include "model/text/detokenizer.h"
#include "model/text/pattern_check.h"
#include "model/text/test_tokenizer.h"
#include "model/text/unicode.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Merges = std::vector<std::pair<std::string, std::string>>;

constexpr int kMerged = 256;

std::shared_ptr<const Tokenizer> Parsed(const json& file) {
  const auto tokenizer = Tokenizer::Parse(file.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

std::string ErrorOf(const json& file) { return std::string(Tokenizer::Parse(file.dump()).status().message()); }

std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(std::vector<int32_t>());
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const auto tokenizer = Parsed(TestTokenizer({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}}));
  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre(kMerged + 2));  // "bc" comes before "ab"
  EXPECT_THAT(Ids(*tokenizer, "ab"), ElementsAre(kMerged + 1));
  EXPECT_THAT(Ids(*tokenizer, "aaa"), ElementsAre(kMerged + 3, 'a'));
  EXPECT_THAT(Ids(*tokenizer, "aaaab"), ElementsAre(kMerged + 3, 'a', kMerged + 1));
  EXPECT_THAT(Ids(*tokenizer, ""), IsEmpty());
}

TEST(Tokenizer, ReadsMergesAsStringsToo) {
  json file = TestTokenizer({{"\u0120", "a"}, {"\u0120a", "b"}});
  file["model"]["merges"] = {"\u0120 a", "\u0120a b"};
  EXPECT_THAT(Ids(*Parsed(file), "x ab"), ElementsAre('x', kMerged + 1));
}

TEST(Tokenizer, SplitsAsQwenDoes) {
  const auto pattern = SplitPattern::Compile(kQwenPattern);
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  const auto pieces = [&](const std::string& text) {
    std::vector<std::string> result;
    EXPECT_TRUE(pattern->Split(text, [&](std::string_view piece) { result.emplace_back(piece); }).ok());
    return result;
  };
  EXPECT_THAT(pieces("It's 12  kernels\r\n"), ElementsAre("It", "'s", " ", "1", "2", " ", " kernels", "\r\n"));
  EXPECT_THAT(pieces("a = b+c;\n\n  x"), ElementsAre("a", " =", " b", "+c", ";\n\n", " ", " x"));
  EXPECT_THAT(pieces("e\u0301t\u00e9 \u4e2d\u6587\u3002"), ElementsAre("e\u0301t\u00e9", " \u4e2d\u6587", "\u3002"));
  // Letters that Unicode 14 does not have: Garay, Todhri, Kirat Rai, CJK extension H.
  EXPECT_THAT(pieces("1\U00010d50\U000105c0\U00016d43\U00031350 1"),
              ElementsAre("1", "\U00010d50\U000105c0\U00016d43\U00031350", " ", "1"));
}

TEST(Tokenizer, ComposesBeforeItSplits) {
  const auto tokenizer = Parsed(TestTokenizer({{"\u00c3", "\u00a9"}}));  // the two bytes of U+00E9
  EXPECT_THAT(Ids(*tokenizer, "e\u0301"), ElementsAre(kMerged));
  EXPECT_THAT(Ids(*tokenizer, "\u00e9"), ElementsAre(kMerged));
  json file = TestTokenizer({{"\u00c3", "\u00a9"}});
  file["normalizer"] = nullptr;
  EXPECT_THAT(Ids(*Parsed(file), "e\u0301"), ElementsAre('e', 0xcc, 0x81));
}

TEST(Tokenizer, FindsSpecialTokensUnlessTheyAreText) {
  const auto tokenizer = Parsed(TestTokenizer({}));
  EXPECT_THAT(Ids(*tokenizer, "a<|im_end|>b"), ElementsAre('a', 258, 'b'));
  const auto as_text = tokenizer->Encode("<|im_end|><think>", Tokenizer::SpecialTokens::kAsText);
  ASSERT_TRUE(as_text.ok());
  EXPECT_EQ(as_text->size(), 11u);  // ten characters, and <think>, which is not special
  EXPECT_EQ(as_text->back(), 259);
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, "a<|im_end|>b<think>"), /*skip_special=*/true), "ab<think>");
}

TEST(Tokenizer, ATemplateThatAddsNothingIsNone) {
  json file = TestTokenizer({});
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
             end = {{"SpecialToken", {{"id", "e"}, {"type_id", 0}}}};
  const auto with = [&file](const json& single, const json& special) {
    file["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", json::array()}, {"special_tokens", special}};
    return Tokenizer::Parse(file.dump());
  };
  const auto tokenizer = with(json::array({text}), json::object());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Ids(**tokenizer, "ab"), ElementsAre('a', 'b'));
  for (const json& single : {json::array(), json::array({text, text}), json::array({text, end})}) {
    EXPECT_FALSE(with(single, json::object()).ok()) << single;
  }
  EXPECT_FALSE(with(json::array({text}), {{"e", 1}}).ok());
}

TEST(Tokenizer, TheLongestTokenThatStartsFirst) {
  json file = TestTokenizer({});
  file["added_tokens"][3]["content"] = "ab";
  file["added_tokens"][4]["content"] = "abab";
  const auto tokenizer = Parsed(file);
  EXPECT_THAT(Ids(*tokenizer, "ababa"), ElementsAre(260, 'a'));
  EXPECT_THAT(Ids(*tokenizer, "aabb"), ElementsAre('a', 259, 'b'));
}

TEST(Tokenizer, HonoursTheFlagsOfAddedTokens) {
  json file = TestTokenizer({});
  file["added_tokens"][3] = {{"id", 259},      {"content", "<m>"}, {"special", false},    {"normalized", false},
                             {"lstrip", true}, {"rstrip", true},   {"single_word", false}};
  file["added_tokens"][4] = {{"id", 260},       {"content", "word"}, {"special", false},   {"normalized", false},
                             {"lstrip", false}, {"rstrip", false},   {"single_word", true}};
  const auto tokenizer = Parsed(file);
  EXPECT_THAT(Ids(*tokenizer, "a \n<m>\u3000b"), ElementsAre('a', 259, 'b'));
  EXPECT_THAT(Ids(*tokenizer, "-word-"), ElementsAre('-', 260, '-'));
  EXPECT_EQ(Ids(*tokenizer, "sword").size(), 5u);
  EXPECT_EQ(Ids(*tokenizer, "word\U00010d50").size(), 8u);  // a letter of Unicode 16 touches it
}

TEST(Tokenizer, IgnoresMergesForWholePiecesWhereTheFileSaysSo) {
  json file = TestTokenizer({{"a", "b"}});
  file["model"]["vocab"]["xyz"] = 257;
  for (json& token : file["added_tokens"]) token["id"] = token["id"].get<int>() + 1;
  EXPECT_THAT(Ids(*Parsed(file), "xyz"), ElementsAre('x', 'y', 'z'));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(Ids(*Parsed(file), "xyz ab"), ElementsAre(257, ' ', 256));
}

TEST(Tokenizer, RoundTripOfEveryCharacter) {
  json file = TestTokenizer({{"\u00c3", "\u00a9"}});
  file["normalizer"] = nullptr;
  const auto tokenizer = Parsed(file);
  for (char32_t block = 0; block < 0x110000; block += 0x400) {
    std::string text;
    for (char32_t c = block; c < block + 0x400; ++c) {
      if (c < 0xd800 || c >= 0xe000) AppendUtf8(c, text);
    }
    ASSERT_EQ(tokenizer->Decode(Ids(*tokenizer, text)), text) << static_cast<uint32_t>(block);
  }
}

TEST(Tokenizer, TheRandomBasesTokenizerIsOfThisForm) {
  const auto tokenizer = Tokenizer::Parse(ByteTokenizerJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->size(), kByteTokenizerSize);
  EXPECT_THAT(Ids(**tokenizer, "A<|im_start|>"), ElementsAre('A', 257));
}

TEST(Tokenizer, RefusesInvalidUtf8ByOffset) {
  const auto tokenizer = Parsed(TestTokenizer({}));
  const std::pair<std::string, std::string> bad[] = {
      {"ab\xff", "byte 0xff at offset 2 starts no valid"},
      {"\xe4\xb8", "byte 0xe4 at offset 0 starts a character that is cut off"},
      {"a\xc0\x80", "offset 1"},
      {"\xed\xa0\x80", "offset 0"},
      {"\xf4\x90\x80\x80", "offset 0"}};
  for (const auto& [text, message] : bad) {
    const auto ids = tokenizer->Encode(text);
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(ids.status().message()), HasSubstr(message));
  }
}

TEST(Tokenizer, RefusesAVocabularyThatContradictsItself) {
  json file = TestTokenizer({});
  file["model"]["vocab"]["x"] = 7;
  EXPECT_THAT(ErrorOf(file), HasSubstr("same id 7"));
  file = TestTokenizer({});
  file["model"]["merges"] = json::array({json::array({"a", "b"})});
  EXPECT_THAT(ErrorOf(file), HasSubstr("model.merges[0]: \"ab\" is not in the vocabulary"));
  file = TestTokenizer({});
  file["model"]["vocab"].erase("a");
  EXPECT_THAT(ErrorOf(file), HasSubstr("byte 0x61 has no token"));
  file = TestTokenizer({});
  file["added_tokens"][0]["id"] = 300;
  EXPECT_THAT(ErrorOf(file), HasSubstr("\"<|endoftext|>\" has id 300, but its place is 256"));
  file = TestTokenizer({});
  file["model"]["vocab"]["x"] = 1 << 22;
  EXPECT_THAT(ErrorOf(file), HasSubstr("model.vocab: the id 4194304 is not between"));
  EXPECT_THAT(ErrorOf("text"), HasSubstr("not an object"));
  EXPECT_THAT(std::string(Tokenizer::Parse("{").status().message()), HasSubstr("not valid JSON"));
  EXPECT_EQ(Tokenizer::Open("/nonexistent").status().code(), absl::StatusCode::kNotFound);
}

TEST(Tokenizer, SaysWhenItIsOfAnotherModel) {
  const auto tokenizer = Parsed(TestTokenizer({}));
  const std::vector<std::string> chat = {"<|im_start|>", "<|im_end|>"}, other = {"<start_of_turn>"};
  EXPECT_TRUE(CheckTokenizerFits(*tokenizer, 261, chat).ok());
  EXPECT_THAT(std::string(CheckTokenizerFits(*tokenizer, 260, chat).message()),
              HasSubstr("up to 260, but the model knows only 260"));
  EXPECT_THAT(std::string(CheckTokenizerFits(*tokenizer, 300, other).message()),
              HasSubstr("no token \"<start_of_turn>\""));
}

TEST(Tokenizer, LongRunsTakeNoLongTime) {
  const auto tokenizer = Parsed(TestTokenizer({{"a", "a"}, {"aa", "aa"}, {"\u0120", "\u0120"}}));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Ids(*tokenizer, std::string(1 << 20, 'a')).size(), size_t{1} << 18);
  EXPECT_EQ(Ids(*tokenizer, std::string(1 << 20, ' ')).size(), size_t{1} << 19);
  EXPECT_EQ(Ids(*tokenizer, std::string(1 << 18, '\n') + "x").size(), (size_t{1} << 18) + 1);
  std::string marks = "a";
  for (int i = 0; i < 200000; ++i) marks += i % 3 == 0 ? "\u0301" : i % 3 == 1 ? "\u0323" : "\u0f73";
  std::string normalized;
  ASSERT_TRUE(NormalizeNfc(marks, normalized));
  // The classes in order: 129 and 130 (what U+0F73 decomposes to), 220, of which the first composes with the "a", 230.
  EXPECT_EQ(normalized.substr(0, 9), "\u1ea1\u0f71\u0f71");
  EXPECT_EQ(normalized.substr(normalized.size() - 4), "\u0301\u0301");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(StreamingDetokenizer, HoldsCharactersBackUntilTheyAreWhole) {
  StreamingDetokenizer stream(Parsed(TestTokenizer({})));
  EXPECT_EQ(stream.Push('a'), "a");
  EXPECT_EQ(stream.Push(0xf0), "");
  EXPECT_EQ(stream.Push(0x9f), "");
  EXPECT_EQ(stream.Push(0x98), "");
  EXPECT_EQ(stream.Push(0x80), "\U0001f600");
  EXPECT_EQ(stream.Push(0xe4), "");
  EXPECT_EQ(stream.Push('b'), "\ufffdb");
  EXPECT_EQ(stream.Push(0xe4), "");
  EXPECT_EQ(stream.Push(0xb8), "");
  EXPECT_EQ(stream.Finish(), "\ufffd");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_EQ(stream.Push(100000), "");  // no token
}

TEST(StreamingDetokenizer, GivesWhatDecodeGives) {
  const auto tokenizer = Parsed(TestTokenizer({{"\u00c3", "\u00a9"}, {"\u00e4", "\u00b8"}}));
  const uint64_t seed = 20260313;
  SplitMix64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> ids(1 + random.Below(12));
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random.Below(2) == 0 ? random.Below(263) : 0x80 + random.Below(0x80));
    for (const bool skip : {false, true}) {
      StreamingDetokenizer stream(tokenizer, skip);
      std::string text;
      for (const int32_t id : ids) {
        const std::string part = stream.Push(id);
        ASSERT_TRUE(CheckUtf8(part, "part").ok());
        text += part;
      }
      ASSERT_EQ(text + stream.Finish(), tokenizer->Decode(ids, skip)) << "seed " << seed << ", round " << round;
    }
  }
}

TEST(PatternCheck, NamesWhatItDoesNotKnow) {
  for (const char* good : {kQwenPattern, R"(\s+)", R"([a-z_]+?|\P{Lu}++|x{2,3}|(?:ab)?c|[^\s\p{L}-])"}) {
    EXPECT_TRUE(CheckSplitPattern(good).ok()) << good << ": " << CheckSplitPattern(good);
  }
  const std::pair<const char*, const char*> bad[] = {{"", "empty"},
                                                     {"(a+)+", "a group other"},
                                                     {"(?:a+)+", "a repeated group"},
                                                     {R"(\w)", "escape \"\\w\""},
                                                     {R"(\p{Han})", "Han"},
                                                     {"a.b", "\".\""},
                                                     {"^a", "\"^\""},
                                                     {"[[:alpha:]]", "a class in a class"},
                                                     {"[a&&b]", "intersect"},
                                                     {"(?i:ss)", "\"ss\""},
                                                     {"(?i:[a])", "class inside"},
                                                     {"(?<=a)b", "a group other"},
                                                     {"a{,3}", "\"{\""},
                                                     {"a{2}+", "a sign after"},
                                                     {"\u4e2d", "outside"},
                                                     {"(?:a", "does not end"},
                                                     {"a)", "without group"},
                                                     {"*a", "of nothing"},
                                                     {"[a", "does not end"},
                                                     {R"(\)", "escape"},
                                                     {R"(\pL)", "without {..}"}};
  for (const auto& [pattern, reason] : bad) {
    EXPECT_THAT(std::string(CheckSplitPattern(pattern).message()), HasSubstr(reason)) << pattern;
  }
  EXPECT_THAT(std::string(SplitPattern::Compile("a?").status().message()), HasSubstr("empty string"));
}

TEST(Unicode, NormalisesAsUnicode9) {
  std::string out;
  EXPECT_FALSE(NormalizeNfc("plain", out));
  ASSERT_TRUE(NormalizeNfc("A\u030a\u1100\u1161\u11a8", out));
  EXPECT_EQ(out, "\u00c5\uac01");
  // A pair that Unicode 13 composes, and a mark that Unicode 14 gave a class: left as they are.
  EXPECT_FALSE(NormalizeNfc("\U00011935\U00011930", out));
  EXPECT_FALSE(NormalizeNfc("a\u0898\u0334", out));
}

}  // namespace
}  // namespace qgpu
