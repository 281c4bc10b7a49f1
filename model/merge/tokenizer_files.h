// A base's tokenizer files with the machine's tokens added, so that a launch is readable in any program that loads
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

// A base's tokenizer.json with one added token for every text, ids from `first_id` on. kInvalidArgument when it is not
// a BPE tokenizer file, or one of the ids or texts is taken.
absl::StatusOr<std::string> AddTokens(const std::string& tokenizer_json, int64_t first_id,
                                      const std::vector<std::string>& texts);

// A base's tokenizer_config.json with the same tokens in its `added_tokens_decoder`, where it has one; unchanged where
// it has not. kInvalidArgument when it is not a JSON object or an id is taken.
absl::StatusOr<std::string> AddTokensToConfig(const std::string& tokenizer_config_json, int64_t first_id,
                                              const std::vector<std::string>& texts);

}  // namespace qgpu
