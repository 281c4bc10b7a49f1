#include "model/text/unicode.h"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <vector>

#include "common/check.h"
#include "model/text/utf8.h"
#include "unicode/bytestream.h"
#include "unicode/normalizer2.h"
#include "unicode/uchar.h"
#include "unicode/uniset.h"

namespace qgpu {
namespace {

struct StandIn {
  char32_t first, last, stand_in;
};

constexpr StandIn kStandIns[] = {
#include "model/text/unicode_stand_ins.inc"
};

// Which blocks of 256 code points have stand-ins at all.
const std::bitset<0x1100>& StandInPages() {
  static const std::bitset<0x1100> pages = [] {
    std::bitset<0x1100> result;
    for (const StandIn& range : kStandIns) {
      for (char32_t page = range.first >> 8; page <= range.last >> 8; ++page) result.set(page);
    }
    return result;
  }();
  return pages;
}

char32_t StandInOf(char32_t code_point) {
  if (!StandInPages()[code_point >> 8]) return code_point;
  const auto* const range = std::lower_bound(std::begin(kStandIns), std::end(kStandIns), code_point,
                                             [](const StandIn& r, char32_t c) { return r.last < c; });
  return range != std::end(kStandIns) && range->first <= code_point ? range->stand_in : code_point;
}

// NFC on the characters of Unicode 9; all others are left alone and combine with nothing.
const icu::Normalizer2& Nfc() {
  static const icu::Normalizer2* const instance = [] {
    UErrorCode error = U_ZERO_ERROR;
    const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
    auto* characters = new icu::UnicodeSet(icu::UnicodeString::fromUTF8("[:age=9.0:]"), error);
    QGPU_CHECK(U_SUCCESS(error), "ICU's data cannot be loaded");
    characters->freeze();
    return new icu::FilteredNormalizer2(*nfc, *characters);
  }();
  return *instance;
}

struct Mark {
  char32_t code_point;
  uint8_t combining_class;
};

// The marks that a character is or decomposes to; none if it is or begins with a starter.
void AppendMarks(char32_t character, std::vector<Mark>& marks) {
  if (character < 0x300) return;
  const auto c = static_cast<UChar32>(character);
  icu::UnicodeString decomposition;
  if (!Nfc().getDecomposition(c, decomposition)) {
    if (const uint8_t combining_class = Nfc().getCombiningClass(c)) marks.push_back({character, combining_class});
    return;
  }
  if (Nfc().getCombiningClass(decomposition.char32At(0)) == 0) return;
  for (int32_t i = 0; i < decomposition.length(); i = decomposition.moveIndex32(i, 1)) {
    const UChar32 part = decomposition.char32At(i);
    marks.push_back({static_cast<char32_t>(part), Nfc().getCombiningClass(part)});
  }
}

constexpr size_t kLongRun = 64;

// Whether the text may have a run of that many marks: it would cover one of the places looked at, since a mark has at
// least two bytes.
bool MayHaveLongRun(std::string_view valid) {
  std::vector<Mark> marks;
  for (size_t at = kLongRun; at < valid.size() && marks.empty(); at += kLongRun) {
    size_t start = at;
    while ((static_cast<unsigned char>(valid[start]) & 0xc0) == 0x80) --start;
    AppendMarks(NextCodePoint(valid, start), marks);
  }
  return !marks.empty();
}

// The text with long runs of marks in canonical order. It means the same and normalises to the same; but ICU sorts by
// insertion, which takes quadratic time for what nobody writes in good faith.
std::string WithLongRunsSorted(std::string_view valid) {
  std::string result;
  std::vector<Mark> marks;
  size_t copied = 0;  // what of `valid` is in `result`
  for (size_t at = 0; at < valid.size();) {
    const size_t run_start = at;
    for (size_t before = 0; at < valid.size(); before = marks.size()) {
      size_t next = at;
      AppendMarks(NextCodePoint(valid, next), marks);
      if (marks.size() == before) break;
      at = next;
    }
    if (marks.size() >= kLongRun) {
      std::stable_sort(marks.begin(), marks.end(),
                       [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
      result += valid.substr(copied, run_start - copied);
      for (const Mark& mark : marks) AppendUtf8(mark.code_point, result);
      copied = at;
    }
    marks.clear();
    if (at < valid.size()) NextCodePoint(valid, at);
  }
  result += valid.substr(copied);
  return result;
}

}  // namespace

bool NormalizeNfc(std::string_view valid, std::string& out) {
  // Nothing below U+0300 (0xcc 0x80) is anything but in NFC.
  const auto low = [](char c) { return static_cast<unsigned char>(c) < 0xcc; };
  if (std::all_of(valid.begin(), valid.end(), low)) return false;
  std::string sorted;
  if (MayHaveLongRun(valid)) sorted = WithLongRunsSorted(valid);
  const std::string_view text = sorted.empty() ? valid : std::string_view(sorted);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  if (Nfc().isNormalizedUTF8(piece, error) && U_SUCCESS(error)) {
    if (text == valid) return false;
    out = text;
    return true;
  }
  std::string normalized;
  icu::StringByteSink<std::string> sink(&normalized, static_cast<int32_t>(text.size()));
  error = U_ZERO_ERROR;
  Nfc().normalizeUTF8(0, piece, sink, nullptr, error);
  QGPU_CHECK(U_SUCCESS(error), "ICU failed to normalise");
  out = std::move(normalized);
  return true;
}

bool ReplaceByStandIns(std::string_view valid, std::string& out) {
  bool replaced = false;
  for (size_t at = 0; at < valid.size();) {
    if (static_cast<unsigned char>(valid[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t start = at;
    const char32_t code_point = NextCodePoint(valid, at);
    const char32_t stand_in = StandInOf(code_point);
    if (stand_in == code_point) continue;
    if (!replaced) out.assign(valid);
    replaced = true;
    std::string bytes;
    AppendUtf8(stand_in, bytes);
    out.replace(start, at - start, bytes);
  }
  return replaced;
}

bool IsWordCharacter(char32_t code_point) {
  const auto c = static_cast<UChar32>(StandInOf(code_point));
  if (u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL)) return true;
  return (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool IsWhiteSpace(char32_t code_point) {
  return u_hasBinaryProperty(static_cast<UChar32>(code_point), UCHAR_WHITE_SPACE);
}

}  // namespace qgpu
