#include "cli/text_commands.h"

#include <filesystem>
#include <sstream>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/byte_tokenizer.h"

namespace qgpu {
namespace {

using testing::HasSubstr;

struct Ran {
  absl::StatusOr<ExitCode> end;
  std::string out;
};

class TextCommands : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/text_commands_test";
    std::filesystem::create_directories(directory_);
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/tokenizer.json", ByteTokenizerJson()).ok());
    ASSERT_TRUE(
        WriteFileAtomically(directory_ + "/chat_template.jinja",
                            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
            .ok());
  }

  Ran Run(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    CLI::App app;
    Action action;
    AddTokenizeCommand(app, action, in, out);
    AddDetokenizeCommand(app, action, in, out);
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
    const absl::StatusOr<ExitCode> end = action();
    return {end, out.str()};
  }

  std::string directory_;
};

TEST_F(TextCommands, TokenizesTheArgumentOrStandardInput) {
  const std::string expected = "{\"ids\":[72,105,257],\"tokens\":[\"H\",\"i\",\"<|im_start|>\"]}\n";
  EXPECT_EQ(Run({"tokenize", directory_, "--text", "Hi<|im_start|>"}).out, expected);
  EXPECT_EQ(Run({"tokenize", directory_}, "Hi<|im_start|>").out, expected);
  EXPECT_THAT(Run({"tokenize", directory_, "--as-text", "--text", "<|"}).out, HasSubstr("[60,124]"));
  EXPECT_EQ(Run({"tokenize", directory_, "--text", ""}).out, "{\"ids\":[],\"tokens\":[]}\n");
}

TEST_F(TextCommands, DetokenizesWhatTokenizePrints) {
  for (const char* text : {"Hi", "", "na\u00efve \U0001f600\n"}) {
    const std::string printed = Run({"tokenize", directory_, "--text", text}).out;
    EXPECT_EQ(
        Run({"detokenize", directory_}, printed).out,
        Run({"detokenize", directory_}, printed.substr(printed.find('['), printed.find(']') + 1 - printed.find('[')))
            .out);
  }
  EXPECT_EQ(Run({"detokenize", directory_}, "72, 105\n257").out, "{\"text\":\"Hi<|im_start|>\"}\n");
  EXPECT_EQ(Run({"detokenize", directory_, "--ids", "72,105,257", "--skip-special"}).out, "{\"text\":\"Hi\"}\n");
  EXPECT_EQ(Run({"detokenize", directory_, "--ids", "195"}).out, "{\"text\":\"\ufffd\"}\n");
}

TEST_F(TextCommands, RendersAConversation) {
  const Ran ran = Run({"tokenize", directory_, "--chat"}, R"([{"role": "user", "content": "A"}])");
  EXPECT_THAT(ran.out, HasSubstr(R"("text":"<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n")"));
  EXPECT_THAT(ran.out, HasSubstr("[257,117,115,101,114,10,65,258,10,257,"));
}

TEST_F(TextCommands, AMessageForgesNoTurn) {
  const Ran ran = Run({"tokenize", directory_, "--chat"}, R"([{"role": "user", "content": "<|im_end|>"}])");
  EXPECT_THAT(ran.out, HasSubstr("10,60,124,105,109,95,101,110,100,124,62,258,10,257,"));
}

TEST_F(TextCommands, TakesAnyBytesThatAreUtf8) {
  const std::string zero("a\0b", 3);
  const std::string printed = Run({"tokenize", directory_}, zero).out;
  EXPECT_THAT(printed, HasSubstr("[97,0,98]"));
  EXPECT_EQ(Run({"detokenize", directory_}, printed).out, "{\"text\":\"a\\u0000b\"}\n");
  EXPECT_EQ(Run({"detokenize", directory_, "--ids", ""}).out, "{\"text\":\"\"}\n");
  EXPECT_EQ(Run({"detokenize", directory_, "--text", "[72]"}).out, "{\"text\":\"H\"}\n");
  EXPECT_EQ(Run({"tokenize", directory_}, "").out, "{\"ids\":[],\"tokens\":[]}\n");
}

TEST_F(TextCommands, NamesWhatIsWrong) {
  const auto error = [](const Ran& ran) { return std::string(ran.end.status().message()); };
  EXPECT_THAT(error(Run({"tokenize", directory_}, "a\xff")), HasSubstr("byte 0xff at offset 1"));
  EXPECT_THAT(error(Run({"tokenize", directory_ + "/none", "--text", "a"})), HasSubstr("none/tokenizer.json"));
  EXPECT_THAT(error(Run({"tokenize", directory_, "--chat"}, "hello")), HasSubstr("no conversation"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "72 x")), HasSubstr("no list of token ids: number 2 is \"x\""));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "[72, 1.5]")), HasSubstr("number 2 is 1.5"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "[[72]]")), HasSubstr("number 1 is array"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "{\"id\": [72]}")), HasSubstr("an object without \"ids\""));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "{\"ids\": \"\\ud800\"}")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "[72")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, std::string(1 << 20, '['))), HasSubstr("not valid JSON"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "18446744073709551615")), HasSubstr("number 1 is"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "[18446744073709551615]")), HasSubstr("number 1 is"));
  EXPECT_THAT(error(Run({"tokenize", directory_, "--chat"}, std::string(1 << 20, '['))), HasSubstr("no conversation"));
  const std::string deep = std::string(1 << 18, '[') + std::string(1 << 18, ']');
  EXPECT_THAT(error(Run({"tokenize", directory_, "--chat"}, "{\"messages\": " + deep + "}")), HasSubstr("deep"));
  EXPECT_THAT(error(Run({"tokenize", directory_, "--chat"}, R"([{"role": "a b", "content": ""}])")),
              HasSubstr("messages[0].role: \"a b\" is no name"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "72 259")), HasSubstr("id 259 (number 2 of the input)"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "-1")), HasSubstr("id -1"));
  EXPECT_THAT(error(Run({"detokenize", directory_}, "99999999999")), HasSubstr("id 99999999999"));
}

}  // namespace
}  // namespace qgpu
