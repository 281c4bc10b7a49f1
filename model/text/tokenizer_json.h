// The JSON of a tokenizer.json. Its two long lists are taken as they are parsed: a tree of a quarter of a million nodes
// each takes longer to build than all the rest of loading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/text/tokenizer_file.h"
#include "nlohmann/json.hpp"

namespace qgpu {

struct TokenizerJson {
  nlohmann::json document;  // model.vocab and model.merges are empty in it
  std::vector<TokenizerFile::Token> vocabulary;
  std::vector<TokenizerFile::Merge> merges;
};

// Errors as ParseUntrustedJson (but for a key twice in model.vocab, which is not noticed), and kInvalidArgument for an
// id in model.vocab that is none, and a merge that is neither a string with one space nor a pair of strings.
absl::StatusOr<TokenizerJson> ReadTokenizerJson(std::string_view text);

// kInvalidArgument naming `place`: not a whole number from 0 to kMaxTokenId.
absl::StatusOr<int32_t> TokenIdIn(const std::string& place, const nlohmann::json& value);

// A short form of a value, for messages.
std::string ShownJson(const nlohmann::json& value);

}  // namespace qgpu
