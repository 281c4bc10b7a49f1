#include "model/text/chat_template.h"

#include <filesystem>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;

std::string Rendered(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  const auto chat_template = ChatTemplate::Parse(source);
  if (!chat_template.ok()) return "error: " + std::string(chat_template.status().message());
  const auto text = (*chat_template)->RenderJson(variables);
  return text.ok() ? *text : "error: " + std::string(text.status().message());
}

constexpr const char* kChat = R"({%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content|trim + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %})";

TEST(ChatTemplate, TurnsAndTheEmptyThinkBlock) {
  const auto chat = ChatTemplate::Parse(kChat);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> messages = {{"system", "Be brief."}, {"user", " Hi\n"}};
  const std::string turns = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n";
  EXPECT_EQ(*(*chat)->Render(messages, {.add_generation_prompt = false}), turns);
  EXPECT_EQ(*(*chat)->Render(messages), turns + "<|im_start|>assistant\n");
  EXPECT_EQ(*(*chat)->Render(messages, {.enable_thinking = false}),
            turns + "<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ((*chat)->Render({{"user", "\xff"}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, ErrorsHaveLineAndName) {
  EXPECT_EQ(Rendered("a\n{{ x.y }}"), "error: the chat template: line 2: 'x' is undefined");
  EXPECT_EQ(Rendered("\n\n{{ raise_exception('No.') }}"),
            "error: the chat template: line 3: the template refuses this: No.");
  EXPECT_THAT(Rendered("{{ 1|nosuch }}"), HasSubstr("line 1: the filter \"nosuch\" is not supported"));
  EXPECT_THAT(Rendered("\n{% import 'x' %}"), HasSubstr("line 2: the statement \"import\" is not supported"));
  EXPECT_THAT(Rendered("{{ 1 "), HasSubstr("a tag that does not end"));
  EXPECT_THAT(Rendered("{% if x %}"), HasSubstr("\"endif\" expected"));
  EXPECT_THAT(Rendered("{{ 1 1 }}"), HasSubstr("\"}}\" expected, not \"1\""));
  EXPECT_THAT(Rendered("\xff"), HasSubstr("not valid UTF-8"));
}

// A list that is doubled 40 times is small, but whoever walks over it meets a million million values.
TEST(ChatTemplate, WalksOverSharedValuesAreLimited) {
  const std::string doubled =
      "{% set s = namespace(x=[1], d={'a': 1}) %}{% set t = namespace(x=[1], d={'a': 1}) %}{% for i in range(40) %}"
      "{% set s.x = [s.x, s.x] %}{% set t.x = [t.x, t.x] %}"
      "{% set s.d = {'a': s.d, 'b': s.d} %}{% set t.d = {'a': t.d, 'b': t.d} %}{% endfor %}";
  for (const std::string expression : {"s.x",
                                       "s.x|string",
                                       "s.x ~ ''",
                                       "s.x|tojson",
                                       "s.x|tojson(indent=2)",
                                       "s.x|join(',')",
                                       "[s.x]|map('string')",
                                       "s.x|upper",
                                       "s.x == t.x",
                                       "s.x != t.x",
                                       "s.x is eq t.x",
                                       "s.x in [t.x]",
                                       "[s.x]|select('in', [t.x])",
                                       "[s.x].index(t.x)",
                                       "[s.x].count(t.x)",
                                       "t[s.x]",
                                       "s.d",
                                       "s.d|tojson(sort_keys=true)",
                                       "s.d == t.d",
                                       "raise_exception(s.x)"}) {
    EXPECT_THAT(Rendered(doubled + "{{ " + expression + " }}"),
                AllOf(HasSubstr("error: "), HasSubstr("the template"), HasSubstr(" more than ")))
        << expression;
  }
  EXPECT_THAT(Rendered(doubled + "{% for i in [1, 2] %}{{ loop.changed(s.x if i == 1 else t.x) }}{% endfor %}"),
              HasSubstr("steps"));
  EXPECT_THAT(Rendered("{% set a = [0] * 1000 %}{% set b = [a] * 1000000 %}{{ b|tojson|length }}"), HasSubstr("steps"));
  // Strings and keys that are shared cost what is read of them.
  const std::string text = "{% set a = 'a' * 20000000 %}{% set b = 'a' * 20000000 %}";
  EXPECT_THAT(Rendered(text + "{{ ([a] * 1000)|tojson }}"), HasSubstr("MiB"));
  EXPECT_THAT(Rendered(text + "{% for i in range(1000) %}{{ a == b }}{% endfor %}"), HasSubstr("steps"));
  EXPECT_THAT(Rendered(text + "{% for i in range(1000) %}{{ a < b }}{% endfor %}"), HasSubstr("steps"));
  EXPECT_THAT(Rendered(text + "{% for i in range(1000) %}{{ a|length }}{% endfor %}"), HasSubstr("steps"));
  EXPECT_THAT(Rendered(text + "{% for i in range(1000) %}{{ {a: 1}[b] }}{% endfor %}"), HasSubstr("steps"));
  EXPECT_EQ(Rendered("{% set a = 'a' * 2000000 %}{% set b = 'a' * 1000000 + 'b' %}{{ b in a }} {{ a.find(b) }}"),
            "False -1");
  EXPECT_THAT(Rendered("{% set a = 'a' * 2000000 %}{% set b = 'a' * 1000000 + 'b' %}{{ a.rfind('b' + a[:1000000]) }}"),
              HasSubstr("-1"));
  EXPECT_THAT(Rendered("{% set a = 'a' * 2000000 %}{{ a.rfind(a[:500000] + 'b' + a[:500000]) }}"), HasSubstr("steps"));
  EXPECT_THAT(Rendered("{% set a = 'a' * 2000000 %}{{ a.strip('b' * 1000000 + 'a') }}"), HasSubstr("steps"));
  std::string keys = "{% set d = {";
  for (int i = 0; i < 1000; ++i) keys += std::to_string(i) + ":0,";
  EXPECT_THAT(Rendered(keys + "} %}{% for i in range(20000) %}{{ d[-1] }}{% endfor %}"), HasSubstr("steps"));
}

// Whatever a template does, it ends: with its text or with an error.
TEST(ChatTemplate, HasLimits) {
  EXPECT_THAT(Rendered("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
              HasSubstr("than"));
  EXPECT_THAT(Rendered("{{ 'a' * 1000000000000 }}"), HasSubstr("MiB"));
  EXPECT_THAT(
      Rendered(
          "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      HasSubstr("MiB"));
  EXPECT_THAT(Rendered("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
              HasSubstr("deep"));
  EXPECT_THAT(Rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("macros inside each other"));
  EXPECT_THAT(Rendered("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}"), HasSubstr("deep"));
  EXPECT_THAT(Rendered("{{ " + std::string(100000, '-') + "1 }}"), HasSubstr("deep"));
  std::string sum = "{{ 1", blocks, filters = "{{ 1";
  for (int i = 0; i < 100000; ++i) sum += "+1", blocks += "{% if 1 %}", filters += "|string";
  EXPECT_THAT(Rendered(sum + " }}"), HasSubstr("inside each other"));
  EXPECT_THAT(Rendered(filters + " }}"), HasSubstr("inside each other"));
  EXPECT_THAT(Rendered(blocks), HasSubstr("nested too deeply"));
  ordered_json deep = 1;
  for (int i = 0; i < 150; ++i) deep = ordered_json::array({deep});
  EXPECT_THAT(Rendered("{{ x }}", {{"x", deep}}), HasSubstr("deep"));
  EXPECT_THAT(Rendered("{% set a = namespace() %}{% set a.me = a %}{{ a.me.me is defined }}"), "True");
}

TEST(ChatTemplate, IsFoundInTheFolder) {
  const std::string directory = testing::TempDir() + "/chat_template_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(directory + "/" + name, text).ok());
  };
  EXPECT_EQ(ChatTemplate::Open(directory).status().code(), absl::StatusCode::kNotFound);
  write("tokenizer_config.json", R"({"eos_token": {"content": "<e>"}, "bos_token": null,
      "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": "list {{ eos_token }}"}]})");
  EXPECT_EQ(*(*ChatTemplate::Open(directory))->Render({}), "list <e>");
  write("chat_template.jinja", "file {{ eos_token }} {{ bos_token }}");
  EXPECT_EQ(*(*ChatTemplate::Open(directory))->Render({}), "file <e> ");
  write("chat_template.jinja", "\n{% nosuch %}");
  EXPECT_THAT(std::string(ChatTemplate::Open(directory).status().message()),
              AllOf(HasSubstr("chat_template.jinja: line 2"), HasSubstr("nosuch")));
}

}  // namespace
}  // namespace qgpu
