#include "model/text/byte_level.h"

#include <array>

#include "model/base/byte_tokenizer.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

constexpr char32_t kCharacters = 0x144;  // the highest one and one

// The byte that a character stands for, or -1.
int ByteOf(char32_t character) {
  static const std::array<int, kCharacters> bytes = [] {
    std::array<int, kCharacters> result;
    result.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      size_t at = 0;
      result[NextCodePoint(ByteLevelCharacter(static_cast<uint8_t>(byte)), at)] = byte;
    }
    return result;
  }();
  return character < kCharacters ? bytes[character] : -1;
}

}  // namespace

std::string BytesOfToken(std::string_view valid) {
  std::string bytes;
  for (size_t at = 0; at < valid.size();) {
    const int byte = ByteOf(NextCodePoint(valid, at));
    if (byte < 0) return std::string(valid);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Front front = ReadUtf8Front(bytes.substr(at));
    text += front.kind == Utf8Front::Kind::kWhole ? bytes.substr(at, front.size) : kReplacementCharacter;
    at += front.size;
  }
  return text;
}

}  // namespace qgpu
