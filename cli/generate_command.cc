// `qgpu generate`: text from a checkpoint, as it is written.
#include <signal.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/text_commands.h"
#include "model/base/untrusted_json.h"
#include "model/generate/text_generator.h"
#include "model/text/chat_encoding.h"
#include "model/text/generation_config.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string directory, text, system, data_type = "float32", device = "cpu";
  bool has_text = false, has_system = false, chat = false, no_think = false, ignore_stop_tokens = false, json = false;
  int64_t max_tokens = 512;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
};

std::atomic<int> interrupted = 0;

// Ctrl-C ends the turn while this lives; a second one ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = [](int number) { interrupted = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ = {};
};

const char* EndName(GenerateEnd end) {
  switch (end) {
    case GenerateEnd::kFed:
      return "fed";
    case GenerateEnd::kStopToken:
      return "stop_token";
    case GenerateEnd::kStopText:
      return "stop_text";
    case GenerateEnd::kMaxTokens:
      return "max_tokens";
    case GenerateEnd::kMachineToken:
      return "machine_token";
    case GenerateEnd::kContextFull:
      return "context_full";
    case GenerateEnd::kCancelled:
      return "cancelled";
  }
  return "";
}

// Why a text is over, where it does not end by itself.
const char* EndNote(GenerateEnd end) {
  switch (end) {
    case GenerateEnd::kMaxTokens:
      return "stopped at --max-tokens";
    case GenerateEnd::kMachineToken:
      return "stopped: the model wrote a token of the machine, which is no text";
    case GenerateEnd::kContextFull:
      return "stopped: the context is full (max_position_embeddings)";
    case GenerateEnd::kCancelled:
      return "interrupted";
    default:
      return nullptr;
  }
}

// How many of the ids are text's: in a dense export the machine's follow.
absl::StatusOr<int64_t> TextVocabulary(const std::string& directory, int64_t vocabulary) {
  const std::string path = directory + "/qgpu_manifest.json";
  const absl::StatusOr<std::string> text = ReadUntrustedText(path, size_t{16} << 20);
  if (absl::IsNotFound(text.status())) return vocabulary;
  QGPU_RETURN_IF_ERROR(text.status());
  const absl::StatusOr<nlohmann::json> manifest = ParseUntrustedJson(*text);
  const bool is_object = manifest.ok() && manifest->is_object();
  const auto first = is_object ? manifest->find("first_machine_token") : nlohmann::json::const_iterator();
  if (!is_object || first == manifest->end() || !first->is_number_unsigned() || first->get<uint64_t>() == 0 ||
      first->get<uint64_t>() > static_cast<uint64_t>(vocabulary)) {
    return absl::InvalidArgumentError(fmt::format("{}: no first_machine_token between 1 and {}", path, vocabulary));
  }
  return first->get<int64_t>();
}

absl::Status ChooseSampling(const Options& options, SamplingOptions& sampling) {
  if (options.temperature.has_value()) sampling.temperature = *options.temperature;
  if (options.top_k.has_value()) sampling.top_k = *options.top_k;
  if (options.top_p.has_value()) sampling.top_p = *options.top_p;
  if (options.min_p.has_value()) sampling.min_p = *options.min_p;
  if (options.repetition_penalty.has_value()) sampling.repetition_penalty = *options.repetition_penalty;
  sampling.seed = options.seed.has_value() ? *options.seed : std::random_device()();
  if (sampling.temperature == 0 &&
      (options.top_k.has_value() || options.top_p.has_value() || options.min_p.has_value())) {
    return absl::InvalidArgumentError(
        "--top-k, --top-p and --min-p are for sampling, and this is greedy; give --temperature above 0");
  }
  return CheckSamplingOptions(sampling);
}

absl::StatusOr<std::vector<int32_t>> EncodePrompt(const Options& options, const Tokenizer& tokenizer,
                                                  const std::string& text) {
  if (!options.chat) return tokenizer.Encode(text);
  QGPU_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Open(options.directory));
  std::vector<ChatMessage> messages;
  if (options.has_system) messages.push_back({"system", options.system});
  messages.push_back({"user", text});
  ChatOptions chat;
  if (options.no_think) chat.enable_thinking = false;
  QGPU_ASSIGN_OR_RETURN(EncodedChat encoded, EncodeChat(*chat_template, tokenizer, messages, chat));
  return std::move(encoded.ids);
}

absl::StatusOr<ExitCode> Generate(const Options& options, std::istream& in, std::ostream& out,
                                  const TextModelLoader& load) {
  QGPU_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(options.directory));
  QGPU_ASSIGN_OR_RETURN(const GenerationConfig config, ReadGenerationConfig(options.directory, *tokenizer));
  for (const std::string& field : config.ignored) {
    fmt::print(stderr, "qgpu: generation_config.json: {} is not followed\n", PrintableName(field));
  }
  GenerateOptions generate;
  generate.max_tokens = options.max_tokens;
  generate.sampling = config.sampling;
  QGPU_RETURN_IF_ERROR(ChooseSampling(options, generate.sampling));
  if (!options.ignore_stop_tokens) generate.stop_tokens = config.stop_tokens;
  generate.stop = options.stop;
  generate.feed_last = false;
  QGPU_RETURN_IF_ERROR(CheckGenerateOptions(generate));
  std::string text = options.text;
  if (!options.has_text) {
    QGPU_ASSIGN_OR_RETURN(text, ReadText(in));
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, EncodePrompt(options, *tokenizer, text));
  if (prompt.empty()) return absl::InvalidArgumentError("the prompt is empty; give --text or standard input");

  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model,
                        load(options.directory, DataTypeNamed(options.data_type), options.device));
  QGPU_RETURN_IF_ERROR(CheckTokenizerFits(*tokenizer, model->vocabulary(), {}));
  QGPU_ASSIGN_OR_RETURN(const int64_t vocabulary, TextVocabulary(options.directory, model->vocabulary()));
  const std::vector<int64_t> wide(prompt.begin(), prompt.end());
  if (const absl::Status room = model->CheckIds(wide); !room.ok()) {
    return absl::Status(room.code(),
                        fmt::format("the prompt has {} tokens: {}", prompt.size(), std::string(room.message())));
  }

  std::string whole;
  std::vector<int32_t> ids;
  GenerateCallbacks callbacks;
  callbacks.is_cancelled = [] { return interrupted != 0; };
  callbacks.on_text = [&](std::string_view part, std::span<const int32_t> written) {
    whole += part;
    ids.insert(ids.end(), written.begin(), written.end());
    if (options.json || part.empty()) return absl::OkStatus();
    out << part << std::flush;
    return out ? absl::OkStatus() : absl::UnavailableError("cannot write to standard output");
  };
  TextGenerator generator(*model, tokenizer, vocabulary);
  const InterruptGuard guard;
  QGPU_ASSIGN_OR_RETURN(const GenerateResult result, generator.Run(prompt, generate, callbacks));
  if (options.json) {
    const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
    const ordered_json answer = {{"text", whole},
                                 {"ids", ids},
                                 {"end", EndName(result.end)},
                                 {"prompt_tokens", prompt.size()},
                                 {"written_tokens", result.written_tokens},
                                 {"seed", generate.sampling.seed},
                                 {"prefill_seconds", seconds(result.prefill)},
                                 {"decode_seconds", seconds(result.decode)}};
    out << answer.dump() << "\n";
  } else {
    out << "\n";
  }
  out.flush();
  if (const char* const note = EndNote(result.end); note != nullptr && !options.json) {
    fmt::print(stderr, "qgpu: {}\n", note);
  }
  return result.end == GenerateEnd::kCancelled ? static_cast<ExitCode>(128 + interrupted) : kExitGood;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Action& action, std::istream& in, std::ostream& out, TextModelLoader load) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Let a checkpoint go on with a text, or answer in a chat");
  command->add_option("DIR", options->directory, "Folder of a base model or of a dense export")->required();
  CLI::Option* text = command->add_option("--text", options->text, "The prompt (default: standard input)");
  CLI::Option* chat =
      command->add_flag("--chat", options->chat, "The prompt is a user's message, for the chat template");
  CLI::Option* system = command->add_option("--system", options->system, "The system message of the chat")->needs(chat);
  command->add_flag("--no-think", options->no_think, "With an empty think block, where the template knows it")
      ->needs(chat);
  command->add_option("--max-tokens", options->max_tokens, "Write at most so many tokens")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_option("--temperature", options->temperature,
                      "0 is greedy (this and the following: as generation_config.json says)");
  command->add_option("--top-k", options->top_k, "Draw from the k likeliest; 0: all");
  command->add_option("--top-p", options->top_p, "Draw from the likeliest that together have this probability");
  command->add_option("--min-p", options->min_p, "Draw from those that have this share of the likeliest's probability");
  command->add_option("--repetition-penalty", options->repetition_penalty, "For every id of the context; 1: none");
  command->add_option("--seed", options->seed, "The same seed gives the same text (default: another one each time)");
  command->add_option("--stop", options->stop, "End where the text has this; may be given again")
      ->allow_extra_args(false);
  command->add_flag("--ignore-stop-tokens", options->ignore_stop_tokens, "Go on behind the end of the turn");
  command->add_option("--dtype", options->data_type, "Data type to compute in")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  command->add_option("--device", options->device, "cpu, cuda, cuda:N or mps")->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object at the end: text, ids, why it ended, times");
  command->callback([options, text, system, &action, &in, &out, load = std::move(load)] {
    options->has_text = text->count() > 0;
    options->has_system = system->count() > 0;
    action = [options, &in, &out, load] { return Generate(*options, in, out, load); };
  });
}

}  // namespace qgpu
