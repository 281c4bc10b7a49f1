#include "model/base/byte_tokenizer.h"

#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr const char* kSpecialTokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

ordered_json SpecialToken(int64_t id, const char* text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string ByteLevelCharacter(uint8_t byte) {
  int code = byte;
  if (!StandsForItself(byte)) {
    code = 0x100;
    for (int other = 0; other < byte; ++other) code += !StandsForItself(other);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::string ByteTokenizerJson() {
  ordered_json vocabulary = ordered_json::object(), added = ordered_json::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[ByteLevelCharacter(byte)] = byte;
  int64_t id = kByteTokenizerEndOfText;
  for (const char* text : kSpecialTokens) {
    vocabulary[text] = id;
    added.push_back(SpecialToken(id++, text));
  }
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const ordered_json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", ordered_json::array()}}},
  };
  return tokenizer.dump(1) + "\n";
}

std::string ByteTokenizerConfigJson() {
  const ordered_json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"},
      {"clean_up_tokenization_spaces", false},        {"model_max_length", 32768},
  };
  return config.dump(2) + "\n";
}

}  // namespace qgpu
