#include "model/text/byte_level.h"

#include <array>

#include "model/text/utf8.h"

namespace qgpu {
namespace {

bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr int kCharacters = 0x144;  // the highest one and one

struct Table {
  std::array<char32_t, 256> character = {};
  std::array<int, kCharacters> byte = {};

  Table() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      character[b] = StandsForItself(b) ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = b;
    }
  }
};

const Table& ByteTable() {
  static const Table table;
  return table;
}

}  // namespace

std::string CharacterOfByte(uint8_t byte) {
  std::string text;
  AppendUtf8(ByteTable().character[byte], text);
  return text;
}

std::string BytesOfToken(std::string_view valid) {
  std::string bytes;
  for (size_t at = 0; at < valid.size();) {
    const char32_t character = NextCodePoint(valid, at);
    const int byte = character < kCharacters ? ByteTable().byte[character] : -1;
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
