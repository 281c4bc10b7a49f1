#include "model/text/utf8.h"

namespace qgpu {
namespace {

struct Lead {
  size_t size;                            // 0: starts no character
  unsigned char low = 0x80, high = 0xbf;  // of the second byte
};

Lead ReadLead(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};  // no surrogates
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};  // up to U+10FFFF
  return {0};
}

}  // namespace

Utf8Front ReadUtf8Front(std::string_view bytes) {
  const Lead lead = ReadLead(static_cast<unsigned char>(bytes[0]));
  if (lead.size == 0) return {Utf8Front::Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Utf8Front::Kind::kCut, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool good = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xc0) == 0x80;
    if (!good) return {Utf8Front::Kind::kInvalid, i};
  }
  return {Utf8Front::Kind::kWhole, lead.size};
}

absl::Status CheckUtf8(std::string_view text, std::string_view what) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Front front = ReadUtf8Front(text.substr(at));
    if (front.kind != Utf8Front::Kind::kWhole) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is not valid UTF-8: byte 0x{:02x} at offset {} {}; convert it to UTF-8", what,
          static_cast<unsigned char>(text[at]), at,
          front.kind == Utf8Front::Kind::kCut ? "starts a character that is cut off" : "starts no valid character"));
    }
    at += front.size;
  }
  return absl::OkStatus();
}

char32_t NextCodePoint(std::string_view valid, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(valid[position + i])); };
  const char32_t lead = byte(0);
  const size_t size = Utf8Length(valid[position]);
  char32_t code = lead;
  if (size == 2) code = (lead & 0x1f) << 6 | (byte(1) & 0x3f);
  if (size == 3) code = (lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  if (size == 4) code = (lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  position += size;
  return code;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::u32string ToCodePoints(std::string_view valid) {
  std::u32string code_points;
  code_points.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) code_points.push_back(NextCodePoint(valid, at));
  return code_points;
}

std::string FromCodePoints(std::u32string_view code_points) {
  std::string text;
  text.reserve(code_points.size());
  for (const char32_t code_point : code_points) AppendUtf8(code_point, text);
  return text;
}

}  // namespace qgpu
