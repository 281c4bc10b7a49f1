#include "reports/printable.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "fmt/format.h"

namespace qgpu {
namespace {

// No other space than that of the keyboard, nothing of ICU's category "other" (controls, formats, unassigned).
bool ShowsAsItself(UChar32 character) {
  return character == ' ' || (u_isprint(character) && !u_isUWhiteSpace(character));
}

std::string WrittenOut(UChar32 character) {
  switch (character) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return character < 0x80 ? fmt::format("\\x{:02x}", character) : fmt::format("\\u{{{:x}}}", character);
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    UChar32 character = 0;
    U8_NEXT(bytes, at, text.size(), character);
    if (character < 0) {
      for (size_t i = start; i < at; ++i) shown += fmt::format("\\x{:02x}", bytes[i]);
    } else if (ShowsAsItself(character)) {
      shown += text.substr(start, at - start);
    } else {
      shown += WrittenOut(character);
    }
  }
  return shown;
}

std::string PrintableLines(std::string_view text) {
  std::string shown;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    shown += Printable(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return shown + Printable(text);
}

}  // namespace qgpu
