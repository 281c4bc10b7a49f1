#include "common/byte_text.h"

#include <algorithm>

namespace qgpu {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

absl::Status Unexpected(char c, size_t place, const char* what) {
  return absl::InvalidArgumentError(
      fmt::format("character {} (code {}) is not {}", place + 1, static_cast<int>(static_cast<uint8_t>(c)), what));
}

}  // namespace

std::string ToHex(const Bytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

absl::StatusOr<Bytes> FromHex(std::string_view text) {
  const size_t start = text.size() >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
  Bytes bytes;
  size_t digits = 0;
  for (size_t i = start; i < text.size(); ++i) {
    if (IsSpace(text[i])) continue;
    const int digit = HexDigit(text[i]);
    if (digit < 0) return Unexpected(text[i], i, "a hexadecimal digit");
    if (digits++ % 2 == 0) {
      bytes.push_back(static_cast<uint8_t>(digit << 4));
    } else {
      bytes.back() = static_cast<uint8_t>(bytes.back() | digit);
    }
  }
  if (digits % 2 != 0) {
    return absl::InvalidArgumentError(fmt::format("{} hexadecimal digits; a byte has two", digits));
  }
  return bytes;
}

absl::StatusOr<Bytes> FromBase64(std::string_view text) {
  Bytes bytes;
  uint32_t bits = 0;
  size_t digits = 0, padding = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsSpace(text[i])) continue;
    if (text[i] == '=') {
      ++padding;
      continue;
    }
    const int digit = Base64Digit(text[i]);
    if (digit < 0 || padding > 0) return Unexpected(text[i], i, "expected in base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (++digits % 4 == 0) {
      for (int shift = 16; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(bits >> shift));
    }
  }
  const size_t rest = digits % 4;
  if (rest == 1 || padding != (rest == 0 ? 0 : 4 - rest)) {
    return absl::InvalidArgumentError(
        fmt::format("base64 of {} digits and {} padding characters does not end where bytes do", digits, padding));
  }
  for (size_t i = 1; i < rest; ++i) bytes.push_back(static_cast<uint8_t>(bits >> (6 * rest - 8 * i)));
  return bytes;
}

std::vector<uint32_t> ToWords(const Bytes& bytes) {
  std::vector<uint32_t> words((bytes.size() + 3) / 4, 0);
  for (size_t i = 0; i < bytes.size(); ++i) words[i / 4] |= uint32_t{bytes[i]} << (8 * (i % 4));
  return words;
}

Bytes FromWords(const std::vector<uint32_t>& words, size_t count) {
  Bytes bytes(std::min(count, 4 * words.size()));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
  return bytes;
}

}  // namespace qgpu
