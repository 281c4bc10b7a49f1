// Seeded mutations of a tokenizer.json, a chat template and a text: nothing crashes, hangs or contradicts itself.
// QGPU_FUZZ_SEED and QGPU_FUZZ_ROUNDS choose others.
#include <cstdlib>

#include "common/file.h"
#include "common/prng.h"
#include "gtest/gtest.h"
#include "model/text/test_tokenizer.h"
#include "tests/text/text_target.h"

namespace qgpu {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// What files and templates are made of, to be put where it may not belong.
const std::vector<std::string> kPieces = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          ",",
                                          ":",
                                          "null",
                                          "true",
                                          "false",
                                          "0",
                                          "-1",
                                          "1e999",
                                          "4194303",
                                          "4194304",
                                          "99999999999999999999",
                                          "\\u0000",
                                          "\\ud800",
                                          "\xff",
                                          "\xed\xa0\x80",
                                          "\u0301",
                                          "\u4e2d",
                                          "\U0001f600",
                                          "\xf0\x9f",
                                          "\n",
                                          "\r\n",
                                          "  ",
                                          "<|im_end|>",
                                          "<think>",
                                          "\"type\": \"NFKC\"",
                                          "\"Regex\": \"(a+)+\"",
                                          "\\\\p{L}",
                                          "\\\\w",
                                          "(?i:",
                                          "(?!",
                                          "[^",
                                          "*",
                                          "+?",
                                          "{2,3}",
                                          "|",
                                          "ByteLevel",
                                          "Split",
                                          "{{",
                                          "}}",
                                          "{%",
                                          "%}",
                                          "{#",
                                          "#}",
                                          "{%-",
                                          "-%}",
                                          "{% endif %}",
                                          "{% endfor %}",
                                          "{% for x in messages %}",
                                          "{% set x = x + 1 %}",
                                          "{% macro f(x) %}",
                                          "{% endmacro %}",
                                          "{{ f(1) }}",
                                          "{% raw %}",
                                          "{% set ns = namespace(x=[]) %}",
                                          "{% set ns.x = [ns.x, ns.x] %}",
                                          "{% for i in range(99999) %}",
                                          "'",
                                          "'a' * 99999",
                                          "[::-1]",
                                          "[0]",
                                          ".x",
                                          "|tojson",
                                          "|length",
                                          "|map('upper')",
                                          "|safe",
                                          "is defined",
                                          " if ",
                                          " else ",
                                          " and ",
                                          " not ",
                                          " in ",
                                          "-",
                                          "(",
                                          ")",
                                          "**",
                                          "//",
                                          "~",
                                          "messages",
                                          "loop.index0",
                                          "messages[0].content",
                                          "none"};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Mutate(std::string text) {
    for (uint32_t edits = 1 + random_.Below(random_.Below(2) == 0 ? 2 : 10); edits > 0; --edits) Edit(text);
    return text;
  }
  // The same for a document that stays JSON: a value somewhere in it is changed, replaced or taken out.
  nlohmann::json MutateJson(nlohmann::json document) {
    for (uint32_t edits = 1 + random_.Below(3); edits > 0; --edits) EditJson(document);
    return document;
  }
  std::string Random() {
    std::string text;
    for (uint32_t parts = random_.Below(30); parts > 0; --parts) {
      if (random_.Below(3) == 0) text.push_back(static_cast<char>(random_.Below(256)));
      text += random_.Below(2) == 0 ? Piece()
                                    : std::string(1 + random_.Below(3), static_cast<char>('a' + random_.Below(3)));
    }
    return text;
  }

 private:
  const std::string& Piece() { return kPieces[random_.Below(static_cast<uint32_t>(kPieces.size()))]; }
  size_t Place(const std::string& text) { return text.empty() ? 0 : random_.Below(static_cast<uint32_t>(text.size())); }

  void Edit(std::string& text) {
    const size_t at = Place(text), size = 1 + random_.Below(random_.Below(4) == 0 ? 200 : 6);
    switch (random_.Below(6)) {
      case 0:
        text.erase(at, size);
        break;
      case 1:
        text.insert(at, Piece());
        break;
      case 2:
        text.replace(at, std::min(size, text.size() - at), Piece());
        break;
      case 3:
        if (!text.empty()) text[at] = static_cast<char>(random_.Below(256));
        break;
      case 4:
        text.insert(Place(text), text.substr(at, size));
        break;
      default:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ 1 << random_.Below(7));
    }
  }

  void EditJson(nlohmann::json& document) {
    nlohmann::json *value = &document, *parent = nullptr;
    while (value->is_structured() && !value->empty() && random_.Below(5) != 0) {
      parent = value;
      value = &*std::next(parent->begin(), random_.Below(static_cast<uint32_t>(parent->size())));
    }
    const nlohmann::json others[] = {
        nullptr,
        true,
        -1,
        0,
        255,
        4194303,
        1e300,
        "",
        "a",
        "\u0120a",
        nlohmann::json::object(),
        nlohmann::json::array(),
        *value,
        document.is_object() ? document.value("added_tokens", nlohmann::json()) : nlohmann::json(),
        "NFC",
        {{"type", "ByteLevel"}}};
    const uint32_t kind = random_.Below(4);
    if (kind == 0 && parent != nullptr && parent->is_object()) {
      const std::string key = std::next(parent->begin(), random_.Below(static_cast<uint32_t>(parent->size()))).key();
      parent->erase(key);
    } else if (kind == 1 && value->is_string()) {
      std::string text = value->get<std::string>();
      text.insert(Place(text), Piece());
      *value = std::move(text);
    } else if (kind == 2 && value->is_number_integer()) {
      *value = value->get<int64_t>() + static_cast<int64_t>(random_.Below(3)) - 1;
    } else if (kind == 3 && value->is_boolean()) {
      *value = !value->get<bool>();
    } else {
      *value = others[random_.Below(static_cast<uint32_t>(std::size(others)))];
    }
  }

  SplitMix64 random_;
};

void MutateAll(const std::string& start, const nlohmann::json* document, bool (*target)(const std::string&),
               uint64_t rounds) {
  const uint64_t seed = FromEnvironment("QGPU_FUZZ_SEED", 20260314);
  rounds = FromEnvironment("QGPU_FUZZ_ROUNDS", rounds);
  uint64_t taken = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "QGPU_FUZZ_SEED=" << seed + round << " QGPU_FUZZ_ROUNDS=1");
    Mutator mutator(seed + round);
    const std::string input =
        document != nullptr && round % 4 != 0
            ? mutator.MutateJson(*document).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
        : start.empty() ? mutator.Random()
                        : mutator.Mutate(start);
    taken += target(input) ? 1 : 0;
  }
  std::printf("seeds %llu to %llu: %llu of %llu taken\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed + rounds - 1), static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(rounds));
  if (rounds > 100) {
    EXPECT_GT(taken, rounds / 100);
    EXPECT_LT(taken, rounds);
  }
}

TEST(TextMutation, TokenizerFile) {
  nlohmann::json document = TestTokenizer({{"a", "b"}, {"\u0120", "a"}});
  document["model"]["unk_token"] = "a";
  MutateAll(document.dump(), &document, FuzzTokenizerFile, 2000);
}

TEST(TextMutation, ChatTemplate) {
  const auto source = ReadFile(QGPU_SOURCE_DIR "/tests/text/qwen_style.jinja");
  ASSERT_TRUE(source.ok()) << source.status();
  MutateAll(*source, nullptr, FuzzChatTemplate, 1500);
}

TEST(TextMutation, RandomTemplates) { MutateAll("", nullptr, FuzzChatTemplate, 5000); }
TEST(TextMutation, Text) { MutateAll("", nullptr, FuzzText, 20000); }

}  // namespace
}  // namespace qgpu
