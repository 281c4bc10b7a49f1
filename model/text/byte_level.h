// Byte-level vocabularies: every byte is written as one visible character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qgpu {

// The character that stands for a byte, as UTF-8: GPT-2's table, printable bytes as themselves, the others U+0100 and
// up.
std::string CharacterOfByte(uint8_t byte);

// The bytes of a vocabulary's token. A token with a character that stands for no byte is its own UTF-8, as in the
// `tokenizers` library.
std::string BytesOfToken(std::string_view valid);

// UTF-8 with every byte sequence that is none replaced by one U+FFFD, as Unicode recommends (maximal subparts).
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace qgpu
