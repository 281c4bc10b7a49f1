// A small tokenizer.json for tests: all bytes, a few merges, a pattern of Qwen3.5's form.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace qgpu {

inline constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Ids 0 to 255 are the bytes, then what each merge makes, in order, then <|endoftext|>, <|im_start|>, <|im_end|>
// (special) and <think>, </think>.
nlohmann::json TestTokenizer(const std::vector<std::pair<std::string, std::string>>& merges);

}  // namespace qgpu
