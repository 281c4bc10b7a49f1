#include "model/text/test_tokenizer.h"

#include "model/base/byte_tokenizer.h"

namespace qgpu {

nlohmann::json TestTokenizer(const std::vector<std::pair<std::string, std::string>>& merges) {
  using nlohmann::json;
  json vocabulary = json::object(), merge_list = json::array(), added = json::array();
  int id = 0;
  for (; id < 256; ++id) vocabulary[ByteLevelCharacter(static_cast<uint8_t>(id))] = id;
  for (const auto& [left, right] : merges) {
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = id++;
    merge_list.push_back({left, right});
  }
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"}) {
    added.push_back({{"id", id++},
                     {"content", text},
                     {"special", text[1] == '|'},
                     {"normalized", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"single_word", false}});
  }
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", merge_list}}}};
}

}  // namespace qgpu
