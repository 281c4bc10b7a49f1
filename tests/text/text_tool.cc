// The text side of the model behind standard input and output, for the comparisons with public libraries: one JSON
// request a line, one JSON answer a line, {"error": ...} where a call fails.
//
//   text_tool tokenizer DIRECTORY   {"text": .., "as_text": bool} -> {"ids": ..}
//                                   {"ids": .., "skip": bool} -> {"text": .., "stream": ..}
//   text_tool render DIRECTORY      {variables} -> {"text": ..}
//   text_tool templates             {"template": .., "variables": {..}} -> {"text": ..}
//   text_tool sample                {"logits": .., "temperature": .., "top_k": .., "top_p": .., "min_p": ..,
//                                    "repetition_penalty": .., "seen": [ids], "seed": .., "draws": ..}
//                                   -> {"ids": ..}
//   text_tool split PATTERN         {"text": ..} -> {"pieces": ..}
//   text_tool nfc                   {"text": ..} -> {"text": ..}
//   text_tool words                 {"first": .., "last": ..} -> {"word": [code points], "space": [code points]}
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>

#include "model/text/chat_template.h"
#include "model/text/detokenizer.h"
#include "model/text/sampling.h"
#include "model/text/split_pattern.h"
#include "model/text/tokenizer.h"
#include "model/text/unicode.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;
using Answer = std::function<absl::StatusOr<ordered_json>(const ordered_json&)>;

ordered_json Error(const absl::Status& status) { return {{"error", std::string(status.message())}}; }

int AnswerLines(const Answer& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json request = ordered_json::parse(line);
    const absl::StatusOr<ordered_json> result = answer(request);
    std::cout << (result.ok() ? *result : Error(result.status())).dump() << "\n";
  }
  return 0;
}

absl::StatusOr<ordered_json> AskTokenizer(const std::shared_ptr<const Tokenizer>& tokenizer,
                                          const ordered_json& request) {
  if (request.contains("text")) {
    const auto special =
        request.value("as_text", false) ? Tokenizer::SpecialTokens::kAsText : Tokenizer::SpecialTokens::kFound;
    QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          tokenizer->Encode(request["text"].get<std::string>(), special));
    return ordered_json{{"ids", ids}};
  }
  const auto ids = request["ids"].get<std::vector<int32_t>>();
  const bool skip = request.value("skip", false);
  StreamingDetokenizer detokenizer(tokenizer, skip);
  std::string stream;
  for (const int32_t id : ids) stream += detokenizer.Push(id);
  stream += detokenizer.Finish();
  return ordered_json{{"text", tokenizer->Decode(ids, skip)}, {"stream", stream}};
}

absl::StatusOr<ordered_json> Split(const SplitPattern& pattern, const ordered_json& request) {
  ordered_json pieces = ordered_json::array();
  QGPU_RETURN_IF_ERROR(pattern.Split(request["text"].get<std::string>(),
                                     [&](std::string_view piece) { pieces.push_back(std::string(piece)); }));
  return ordered_json{{"pieces", pieces}};
}

absl::StatusOr<ordered_json> Nfc(const ordered_json& request) {
  std::string text = request["text"].get<std::string>(), normalized;
  if (NormalizeNfc(text, normalized)) text = normalized;
  return ordered_json{{"text", text}};
}

absl::StatusOr<ordered_json> Words(const ordered_json& request) {
  ordered_json word = ordered_json::array(), space = ordered_json::array();
  for (auto c = request["first"].get<uint32_t>(); c <= request["last"].get<uint32_t>(); ++c) {
    if (IsWordCharacter(c)) word.push_back(c);
    if (IsWhiteSpace(c)) space.push_back(c);
  }
  return ordered_json{{"word", word}, {"space", space}};
}

absl::StatusOr<ordered_json> Rendered(const ChatTemplate& chat_template, const ordered_json& variables) {
  QGPU_ASSIGN_OR_RETURN(const std::string text, chat_template.RenderJson(variables));
  return ordered_json{{"text", text}};
}

absl::StatusOr<ordered_json> ParseAndRender(const ordered_json& request) {
  QGPU_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Parse(request["template"].get<std::string>()));
  return Rendered(*chat_template, request["variables"]);
}

absl::StatusOr<ordered_json> Sample(const ordered_json& request) {
  SamplingOptions options;
  options.temperature = request["temperature"].get<double>();
  options.top_k = request["top_k"].get<int64_t>();
  options.top_p = request["top_p"].get<double>();
  options.min_p = request["min_p"].get<double>();
  options.repetition_penalty = request["repetition_penalty"].get<double>();
  options.seed = request["seed"].get<uint64_t>();
  const auto seen = request["seen"].get<std::vector<int32_t>>();
  QGPU_RETURN_IF_ERROR(CheckSamplingOptions(options));
  Sampler sampler(options);
  const auto logits = request["logits"].get<std::vector<float>>();
  std::vector<int32_t> ids;
  for (int64_t draws = request["draws"].get<int64_t>(); draws > 0; --draws) {
    QGPU_ASSIGN_OR_RETURN(const int32_t id, sampler.Next(logits, seen));
    ids.push_back(id);
  }
  return ordered_json{{"ids", ids}};
}

int Fail(const absl::Status& status) {
  std::cout << Error(status).dump() << "\n";
  return 2;
}

int Main(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "nfc") return AnswerLines(Nfc);
  if (command == "words") return AnswerLines(Words);
  if (command == "sample") return AnswerLines(Sample);
  if (command == "templates") return AnswerLines(ParseAndRender);
  if (arguments.size() == 2 && command == "render") {
    const auto chat_template = ChatTemplate::Open(arguments[1]);
    if (!chat_template.ok()) return Fail(chat_template.status());
    return AnswerLines([&](const ordered_json& request) { return Rendered(**chat_template, request); });
  }
  if (arguments.size() == 2 && command == "tokenizer") {
    const auto tokenizer = Tokenizer::Open(arguments[1]);
    if (!tokenizer.ok()) return Fail(tokenizer.status());
    return AnswerLines([&](const ordered_json& request) { return AskTokenizer(*tokenizer, request); });
  }
  if (arguments.size() == 2 && command == "split") {
    const auto pattern = SplitPattern::Compile(arguments[1]);
    if (!pattern.ok()) return Fail(pattern.status());
    return AnswerLines([&](const ordered_json& request) { return Split(*pattern, request); });
  }
  std::fprintf(stderr, "usage: see the head of text_tool.cc\n");
  return 2;
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) { return qgpu::Main({argv + 1, argv + argc}); }
