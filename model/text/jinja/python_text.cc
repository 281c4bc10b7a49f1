#include "model/text/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "fmt/format.h"
#include "model/text/utf8.h"
#include "unicode/locid.h"
#include "unicode/uchar.h"
#include "unicode/unistr.h"

namespace qgpu::jinja {
namespace {

template <typename Predicate>
std::string_view StripLeftIf(std::string_view valid, Predicate strips) {
  size_t at = 0;
  while (at < valid.size()) {
    size_t next = at;
    if (!strips(NextCodePoint(valid, next))) break;
    at = next;
  }
  return valid.substr(at);
}

template <typename Predicate>
std::string_view StripRightIf(std::string_view valid, Predicate strips) {
  while (!valid.empty()) {
    size_t start = valid.size() - 1;
    while ((static_cast<unsigned char>(valid[start]) & 0xc0) == 0x80) --start;
    size_t at = start;
    if (!strips(NextCodePoint(valid, at))) break;
    valid = valid.substr(0, start);
  }
  return valid;
}

std::string ToUtf8(const icu::UnicodeString& text) {
  std::string result;
  text.toUTF8String(result);
  return result;
}

icu::UnicodeString ToIcu(std::string_view valid) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(valid.data(), static_cast<int32_t>(valid.size())));
}

// str.isprintable: no controls, no separators but the space.
bool IsPrintable(char32_t code_point) {
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return code_point == ' ' || (U_GET_GC_MASK(static_cast<UChar32>(code_point)) & kHidden) == 0;
}

}  // namespace

bool IsPythonSpace(char32_t code_point) {
  return (code_point >= 0x1c && code_point <= 0x1f) ||
         u_hasBinaryProperty(static_cast<UChar32>(code_point), UCHAR_WHITE_SPACE);
}

std::string_view StripLeft(std::string_view valid) { return StripLeftIf(valid, IsPythonSpace); }
std::string_view StripRight(std::string_view valid) { return StripRightIf(valid, IsPythonSpace); }
std::string_view StripLeft(std::string_view valid, std::u32string_view characters) {
  return StripLeftIf(valid, [&](char32_t c) { return characters.find(c) != std::u32string_view::npos; });
}
std::string_view StripRight(std::string_view valid, std::u32string_view characters) {
  return StripRightIf(valid, [&](char32_t c) { return characters.find(c) != std::u32string_view::npos; });
}

size_t FindText(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* const found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<const char*>(found) - text.data();
}

int64_t Length(std::string_view valid) {
  return std::count_if(valid.begin(), valid.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string Upper(std::string_view valid) { return ToUtf8(ToIcu(valid).toUpper(icu::Locale::getRoot())); }
std::string Lower(std::string_view valid) { return ToUtf8(ToIcu(valid).toLower(icu::Locale::getRoot())); }

std::string Capitalize(std::string_view valid) {
  if (valid.empty()) return "";
  const size_t first = Utf8Length(valid[0]);
  return ToUtf8(ToIcu(valid.substr(0, first)).toTitle(nullptr, icu::Locale::getRoot())) + Lower(valid.substr(first));
}

std::string Repr(std::string_view valid) {
  const bool has_single = valid.find('\'') != std::string_view::npos;
  const char quote = has_single && valid.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, quote);
  for (size_t at = 0; at < valid.size();) {
    const size_t start = at;
    const char32_t c = NextCodePoint(valid, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      result += {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : 't'};
    } else if (IsPrintable(c)) {
      result += valid.substr(start, at - start);
    } else {
      const auto value = static_cast<uint32_t>(c);
      result += value < 0x100     ? fmt::format("\\x{:02x}", value)
                : value < 0x10000 ? fmt::format("\\u{:04x}", value)
                                  : fmt::format("\\U{:08x}", value);
    }
  }
  return result + quote;
}

// The shortest digits that read back as the number, in Python's layout: exponents below -4 and from 16 on.
std::string Repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (number != 0 && (exponent < -4 || exponent >= 16)) {
    return fmt::format("{}e{}{:02d}", text.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed).ptr;
  const std::string plain(buffer, fixed);
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

std::string JsonString(std::string_view valid) {
  constexpr std::string_view kNames = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
  std::string result = "\"";
  for (const char c : valid) {
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      result += {'\\', kLetters[index]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result.push_back(c);
    }
  }
  return result + '"';
}

}  // namespace qgpu::jinja
