// UTF-8 as the text side needs it: checked once where text comes in, then decoded without checks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu {

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD

// How the bytes at the front of `bytes` (not empty) read: a whole character, the start of one that the end of `bytes`
// cuts off, or something that can be no character. `size` is the character's length, or that of the longest part that
// could have begun one (at least 1): what a decoder replaces by one U+FFFD.
struct Utf8Front {
  enum class Kind { kWhole, kCut, kInvalid };
  Kind kind;
  size_t size;
};
Utf8Front ReadUtf8Front(std::string_view bytes);

// kInvalidArgument with the offset and the byte, if `text` is not valid UTF-8; `what` names it in the message.
absl::Status CheckUtf8(std::string_view text, std::string_view what);

// The code point at `position` of valid UTF-8, which moves behind it.
char32_t NextCodePoint(std::string_view valid, size_t& position);

// The length of the character that starts with this byte, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

void AppendUtf8(char32_t code_point, std::string& out);
std::u32string ToCodePoints(std::string_view valid);
std::string FromCodePoints(std::u32string_view code_points);

}  // namespace qgpu
