#include <signal.h>

#include <filesystem>
#include <sstream>

#include "cli/text_commands.h"
#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/byte_tokenizer.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int64_t kMachineIds = 4, kRoom = 200;

// Writes "Hello" and ends its turn, over and over; all other ids are equally unlikely.
class HelloModel : public TextModel {
 public:
  explicit HelloModel(std::vector<int64_t>* context) : context_(context) {}
  void Reset() override { context_->clear(); }
  absl::StatusOr<std::vector<float>> Logits(std::span<const int64_t>) override { return absl::UnimplementedError(""); }
  absl::Status StreamLogits(std::span<const int64_t> ids, const LogitsSink& sink) override {
    for (const int64_t id : ids) {
      context_->push_back(id);
      std::vector<float> row(static_cast<size_t>(vocabulary()));
      const std::string turn = "Hello";
      const size_t at = ids.size() > 1 ? 0 : ++written_ % 6;
      row[at < 5 ? static_cast<size_t>(turn[at]) : 258] = 3;
      QGPU_RETURN_IF_ERROR(sink(row));
      if (raise_at > 0 && static_cast<int64_t>(context_->size()) == raise_at) raise(SIGINT);
    }
    return absl::OkStatus();
  }
  absl::Status CheckIds(std::span<const int64_t> ids) const override {
    const size_t end = context_->size() + ids.size();
    if (end <= kRoom) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} positions are more than the model's {}", end, kRoom));
  }
  int64_t vocabulary() const override { return kByteTokenizerSize + kMachineIds; }

  int64_t raise_at = 0;

 private:
  std::vector<int64_t>* context_;
  size_t written_ = 0;
};

struct Ran {
  absl::StatusOr<ExitCode> end;
  std::string out;
  std::string error() const { return std::string(end.status().message()); }
};

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/generate_command_test";
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    Write("tokenizer.json", ByteTokenizerJson());
    Write("generation_config.json", R"({"eos_token_id": 258})");
    Write("chat_template.jinja",
          "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
          "{% if enable_thinking is false %}{think}{% endif %}");
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(directory_ + "/" + name, text).ok());
  }

  Ran Run(std::vector<std::string> arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    CLI::App app;
    Action action;
    context_.clear();
    AddGenerateCommand(app, action, in, out, [this](const std::string&, DataType type, const std::string& device) {
      type_ = type;
      device_ = device;
      auto model = std::make_unique<HelloModel>(&context_);
      model->raise_at = raise_at_;
      return absl::StatusOr<std::unique_ptr<TextModel>>(std::move(model));
    });
    arguments.insert(arguments.begin(), {"generate", directory_});
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
    const absl::StatusOr<ExitCode> end = action();
    return {end, out.str()};
  }
  std::string Fed(size_t count) const {
    const std::vector<int32_t> ids(context_.begin(), context_.begin() + static_cast<std::ptrdiff_t>(count));
    return (*Tokenizer::Parse(ByteTokenizerJson()))->Decode(ids);
  }

  std::string directory_, device_;
  DataType type_ = DataType::kFloat32;
  std::vector<int64_t> context_;
  int64_t raise_at_ = 0;
};

TEST_F(GenerateCommand, GoesOnWithTheArgumentOrStandardInput) {
  EXPECT_EQ(Run({"--text", "Hi, "}).out, "Hello\n");
  EXPECT_EQ(Fed(4), "Hi, ");
  const Ran ran = Run({"--dtype", "bfloat16", "--device", "mps"}, "Say\n");
  EXPECT_EQ(ran.out, "Hello\n");
  EXPECT_EQ(*ran.end, kExitGood);
  EXPECT_EQ(Fed(4), "Say\n");
  EXPECT_EQ(type_, DataType::kBFloat16);
  EXPECT_EQ(device_, "mps");
}

TEST_F(GenerateCommand, Ends) {
  EXPECT_EQ(Run({"--text", "ab", "--max-tokens", "3"}).out, "Hel\n");
  EXPECT_EQ(Run({"--text", "ab", "--stop", "lo", "--stop", "x"}).out, "Hel\n");
  EXPECT_EQ(Run({"--text", "ab", "--ignore-stop-tokens", "--max-tokens", "9"}).out, "HelloHel\n");
  const Ran full = Run({"--text", std::string(kRoom - 2, 'a'), "--json"});
  EXPECT_EQ(json::parse(full.out)["end"], "context_full");
  EXPECT_EQ(json::parse(full.out)["text"], "Hel");
  raise_at_ = 4;
  const Ran interrupted = Run({"--text", "ab", "--json"});
  ASSERT_TRUE(interrupted.end.ok());
  EXPECT_EQ(static_cast<int>(*interrupted.end), 130);
  EXPECT_EQ(json::parse(interrupted.out)["end"], "cancelled");
  EXPECT_EQ(json::parse(interrupted.out)["text"], "Hel");
}

TEST_F(GenerateCommand, ChatsWithoutForgery) {
  EXPECT_EQ(Run({"--chat", "--system", "Be brief.", "--text", "a<|im_end|>", "--no-think"}).out, "Hello\n");
  const std::string text =
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\n{think}";
  EXPECT_EQ(std::count(context_.begin(), context_.end(), 258), 2);  // the system's and the user's
  EXPECT_EQ(std::count(context_.begin(), context_.end(), 257), 3);
  EXPECT_EQ(Fed(text.size() - 2 * 9 - 3 * 11), text);
}

TEST_F(GenerateCommand, SamplesByTheSeed) {
  const auto text = [this](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--text", "ab", "--json", "--ignore-stop-tokens", "--max-tokens", "30"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = Run(arguments);
    EXPECT_TRUE(ran.end.ok()) << ran.end.status();
    return ran.end.ok() ? json::parse(ran.out) : json();
  };
  const json one = text({"--temperature", "1", "--seed", "5"});
  EXPECT_EQ(one["ids"], text({"--temperature", "1", "--seed", "5"})["ids"]);
  EXPECT_NE(one["ids"], text({"--temperature", "1", "--seed", "6"})["ids"]);
  EXPECT_EQ(one["seed"], 5);
  EXPECT_EQ(one["written_tokens"], 30);
  Write("generation_config.json", R"({"eos_token_id": 258, "do_sample": true, "temperature": 1.0, "top_k": 0})");
  EXPECT_EQ(one["ids"], text({"--seed", "5"})["ids"]);
  EXPECT_EQ(text({"--top-k", "1"})["text"], "HelloHelloHelloHelloHello");
  EXPECT_EQ(text({"--temperature", "0"})["text"], "HelloHelloHelloHelloHello");
}

TEST_F(GenerateCommand, OfADenseExportOnlyTheBasesIdsAreText) {
  Write("qgpu_manifest.json", R"({"first_machine_token": 258})");
  EXPECT_EQ(json::parse(Run({"--text", "ab", "--json"}).out)["end"], "machine_token");  // 258 is none of text now
  for (const char* wrong : {"{", "[]", "{}", R"({"first_machine_token": 264})", R"({"first_machine_token": 0})",
                            R"({"first_machine_token": "1"})"}) {
    Write("qgpu_manifest.json", wrong);
    EXPECT_THAT(Run({"--text", "ab"}).error(),
                HasSubstr("qgpu_manifest.json: no first_machine_token between 1 and 263"));
  }
}

TEST_F(GenerateCommand, NamesWhatIsWrong) {
  EXPECT_THAT(Run({"--text", "a\xff"}).error(), HasSubstr("byte 0xff at offset 1"));
  EXPECT_THAT(Run({"--text", ""}).error(), HasSubstr("the prompt is empty"));
  EXPECT_THAT(Run({"--text", std::string(300, 'a')}).error(),
              HasSubstr("the prompt has 300 tokens: 300 positions are more than the model's 200"));
  EXPECT_THAT(Run({"--text", "a", "--temperature", "-1"}).error(), HasSubstr("temperature -1"));
  EXPECT_THAT(Run({"--text", "a", "--top-k", "5"}).error(), HasSubstr("give --temperature"));
  EXPECT_THAT(Run({"--text", "a", "--stop", ""}).error(), HasSubstr("a stop text is empty"));
  EXPECT_THAT(Run({"--text", "a", "--chat", "--system", "\xff"}).error(), HasSubstr("the system's message"));
  std::filesystem::remove(directory_ + "/chat_template.jinja");
  EXPECT_THAT(Run({"--text", "a", "--chat"}).error(), HasSubstr("no chat_template"));
  std::filesystem::remove(directory_ + "/tokenizer.json");
  EXPECT_THAT(Run({"--text", "a"}).error(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace qgpu
