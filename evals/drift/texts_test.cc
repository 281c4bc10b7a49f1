// The shipped texts, their manifest, and their ids.
#include "evals/drift/texts.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/byte_tokenizer.h"
#include "model/text/tokenizer.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Folder(const char* name) {
  const std::string path = testing::TempDir() + "/drift_texts_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::string WithByteTokenizer() {
  const std::string path = Folder("bytes");
  std::ofstream(path + "/tokenizer.json") << ByteTokenizerJson();
  return path;
}

TEST(ShippedTexts, HaveEveryKindALicenceAndAUsefulLength) {
  const auto texts = ShippedDriftTexts();
  ASSERT_TRUE(texts.ok()) << texts.status();
  std::set<std::string> kinds, names;
  for (const DriftText& text : *texts) {
    kinds.insert(text.kind);
    EXPECT_TRUE(names.insert(text.name).second) << text.name;
    EXPECT_EQ(text.licence, "MIT") << "a text of another licence belongs into THIRD_PARTY_NOTICES.md first";
    std::istringstream stream(text.text);
    const auto words = std::distance(std::istream_iterator<std::string>(stream), {});
    EXPECT_GE(words, 300) << text.name;
    EXPECT_LE(words, 1500) << text.name;
  }
  EXPECT_THAT(kinds, ElementsAre("chat", "code", "numbers", "prose", "trigger"));
}

TEST(ShippedTexts, GoThroughATokenizerAndBack) {
  const auto tokenizer = Tokenizer::Parse(ByteTokenizerJson());
  ASSERT_TRUE(tokenizer.ok());
  const auto texts = ShippedDriftTexts();
  for (const DriftText& text : *texts) {
    const auto ids = (*tokenizer)->Encode(text.text, Tokenizer::SpecialTokens::kAsText);
    ASSERT_TRUE(ids.ok()) << text.name << ids.status();
    EXPECT_EQ((*tokenizer)->Decode(*ids), text.text);
  }
}

TEST(Manifest, EntriesMustBeWholeAndTheirFilesThere) {
  static constexpr std::string_view kContent = "text";
  const auto file = [](std::string_view name) { return name == "a.txt" ? &kContent : nullptr; };
  const std::string good = R"({"texts": [{"name": "a", "kind": "k", "licence": "l", "source": "s", "file": "a.txt"}]})";
  ASSERT_TRUE(ParseDriftManifest(good, file).ok());
  EXPECT_EQ(ParseDriftManifest(good, file)->at(0).text, "text");
  for (const char* part : {"name", "kind", "licence", "source", "file", "a.txt", "texts"}) {
    std::string damaged = good;
    damaged[damaged.find(part)] = 'X';
    EXPECT_FALSE(ParseDriftManifest(damaged, file).ok()) << damaged;
  }
}

TEST(DriftTextsNamed, TakesNamesAndFiles) {
  EXPECT_EQ(DriftTextsNamed({"all"})->size(), ShippedDriftTexts()->size());
  const std::string path = Folder("named") + "/mine.txt";
  std::ofstream(path) << "some text";
  const auto texts = DriftTextsNamed({"code", path});
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_EQ(texts->at(0).name, "code");
  EXPECT_EQ(texts->at(1).text, "some text");
  EXPECT_TRUE(absl::IsNotFound(DriftTextsNamed({"nothing"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DriftTextsNamed({"all", "code"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DriftTextsNamed({}).status()));
  EXPECT_FALSE(DriftTextsNamed({testing::TempDir()}).ok()) << "a folder";
}

TEST(DriftTextsNamed, RefusesWhatIsNoUtf8) {
  const std::string path = Folder("bad") + "/bad.txt";
  std::ofstream(path) << "caf\xc3\xa9 \xff";
  const absl::Status refused = DriftTextsNamed({path}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path + " is not valid UTF-8: byte 0xff at offset 6"));
  const std::string badly_named = Folder("bad") + "/\xff.txt";
  std::ofstream(badly_named) << "good text";
  EXPECT_THAT(std::string(DriftTextsNamed({badly_named}).status().message()), HasSubstr("the name of the drift text"));
}

TEST(DriftEncoder, UsesTheTokenizerOfTheBase) {
  const auto encoder = DriftEncoder::Open(WithByteTokenizer(), kByteTokenizerSize);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_TRUE(encoder->has_tokenizer());
  const DriftText text{"t", "", "", "", "a<|im_end|>b"};
  const auto tokens = encoder->Encode(text, 0);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->ids.size(), text.text.size()) << "a special token in a text is its characters";
  EXPECT_EQ(encoder->Show(tokens->ids), text.text);
  EXPECT_EQ(encoder->Encode(text, 3)->ids.size(), 4u);
  EXPECT_EQ(encoder->Encode(text, 1000)->ids.size(), text.text.size());
}

TEST(DriftEncoder, WithoutATokenizerTakesBytesModuloTheVocabulary) {
  const auto encoder = DriftEncoder::Open(Folder("none"), 100);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_FALSE(encoder->has_tokenizer());
  EXPECT_THAT(encoder->Description(), HasSubstr("bytes modulo 100"));
  EXPECT_THAT(encoder->Encode({"t", "", "", "", "A\xc3\xa9z"}, 0)->ids, ElementsAre(65, 95, 69, 22));
  EXPECT_EQ(encoder->Show({65, 10, 99}), "A?c");
}

TEST(DriftEncoder, RefusesWhatCannotBeMeasured) {
  EXPECT_FALSE(DriftEncoder::Open(WithByteTokenizer(), 100).ok()) << "a tokenizer of another model";
  const std::string folder = Folder("damaged");
  std::ofstream(folder + "/tokenizer.json") << "{";
  EXPECT_FALSE(DriftEncoder::Open(folder, 1000).ok()) << "no reason to fall back to bytes";
  const auto encoder = DriftEncoder::Open(WithByteTokenizer(), 512);
  const auto broken = encoder->Encode({"mine", "", "", "", "ab\xff"}, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(broken.status()));
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("text mine"));
  EXPECT_FALSE(encoder->Encode({"mine", "", "", "", "a"}, 0).ok());
}

}  // namespace
}  // namespace qgpu
