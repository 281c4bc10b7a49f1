// The tokenizer of the random base: byte-level BPE with no merges, so every byte of text is a token, and three special
// tokens. In the `tokenizers` library's file format.
#pragma once

#include <cstdint>
#include <string>

namespace qgpu {

inline constexpr int64_t kByteTokenizerEndOfText = 256;  // <|endoftext|>; 257 and 258 are <|im_start|> and <|im_end|>
inline constexpr int64_t kByteTokenizerSize = 259;

std::string ByteTokenizerJson();        // tokenizer.json
std::string ByteTokenizerConfigJson();  // tokenizer_config.json

// The character that stands for a byte in byte-level BPE vocabularies, as UTF-8 (GPT-2's table: printable bytes are
// themselves, the others U+0100 and up in order).
std::string ByteLevelCharacter(uint8_t byte);

}  // namespace qgpu
