// How a base model wants to be sampled, and which tokens end its turn: generation_config.json, config.json and
// tokenizer_config.json of its folder.
#pragma once

#include <string>
#include <vector>

#include "model/text/sampling.h"
#include "model/text/tokenizer.h"

namespace qgpu {

struct GenerationConfig {
  SamplingOptions sampling;          // greedy where do_sample is not true
  std::vector<int32_t> stop_tokens;  // ascending, none twice
  std::vector<std::string> ignored;  // fields that change what is generated and are not followed

  bool IsStop(int32_t id) const;
};

// `eos_token_id` (a number or a list) of generation_config.json, or else of config.json (also under text_config), and
// `eos_token` (a string, or an object with `content`) of tokenizer_config.json. A file that is missing gives nothing.
// kInvalidArgument: a file is malformed, a field is out of range, a stop token is not in the vocabulary.
absl::StatusOr<GenerationConfig> ReadGenerationConfig(const std::string& directory, const Tokenizer& tokenizer);

}  // namespace qgpu
