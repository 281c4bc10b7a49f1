// Byte-level vocabularies: every byte is written as one visible character
// (ByteLevelCharacter in model/base/byte_tokenizer.h).
#pragma once

#include <string>
#include <string_view>

namespace qgpu {

// The bytes of a vocabulary's token. A token with a character that stands for no byte is its own UTF-8, as in the
// `tokenizers` library.
std::string BytesOfToken(std::string_view valid);

// UTF-8 with every byte sequence that is none replaced by one U+FFFD, as Unicode recommends (maximal subparts).
std::string ReplaceInvalidUtf8(std::string_view bytes);

}  // namespace qgpu
