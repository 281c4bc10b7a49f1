// A tokenizer.json, read: what this project does with it, and nothing left that it does not do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/text/added_tokens.h"

namespace qgpu {

struct TokenizerFile {
  struct Merge {
    std::string left, right;
  };
  struct Token {
    std::string text;  // in byte-level form
    int32_t id;
  };
  bool nfc = false;
  std::vector<std::string> split_patterns;  // applied one after the other
  bool ignore_merges = false;
  std::vector<Token> vocabulary;
  std::vector<Merge> merges;  // in the order of their ranks
  std::vector<AddedToken> added;
};

// Ids are below this: more than any vocabulary has, and no reason to fill memory.
inline constexpr int64_t kMaxTokenId = (1 << 22) - 1;

// Supported: model BPE without dropout, affixes or byte fallback; normalizer null or NFC; pre-tokenizer ByteLevel, or a
// sequence of Split (a regular expression, isolated) with ByteLevel last, without a prefix space; post-processor null
// or ByteLevel; decoder ByteLevel; no truncation, no padding. kInvalidArgument names the field that is missing,
// malformed or asks for something else; so does any field that is not known here.
absl::StatusOr<TokenizerFile> ReadTokenizerFile(std::string_view json);

}  // namespace qgpu
