#include "model/text/text_ranges.h"

#include <algorithm>
#include <string>

#include "model/text/unicode.h"

namespace qgpu {
namespace {

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

void Append(std::vector<TextRange>& ranges, TextRange range) {
  if (range.begin == range.end) return;
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

std::vector<TextRange> RangesWithin(std::span<const TextRange> ranges, size_t begin, size_t end) {
  std::vector<TextRange> within;
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const TextRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    within.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return within;
}

// No character combines with an ASCII one behind it, so the text normalises in sections that begin with one.
std::vector<TextRange> RangesAfterNfc(std::string_view valid, std::span<const TextRange> ranges) {
  std::vector<TextRange> after;
  std::string normalized;
  size_t written = 0;
  for (size_t start = 0, end = 0; start < valid.size(); start = end) {
    end = start + 1;
    while (end < valid.size() && !IsAscii(valid[end])) ++end;
    const std::string_view section = valid.substr(start, end - start);
    const std::vector<TextRange> within = RangesWithin(ranges, start, end);
    if (end - start == 1 || !NormalizeNfc(section, normalized)) {
      for (const TextRange& range : within) Append(after, {written + range.begin, written + range.end});
      written += section.size();
      continue;
    }
    // The ASCII character may have stayed as it was; if not, it is one with what follows it.
    const size_t kept = IsAscii(section[0]) && normalized[0] == section[0] ? 1 : 0;
    if (!within.empty() && within.front().begin < kept) Append(after, {written, written + kept});
    if (!within.empty() && within.back().end > kept) Append(after, {written + kept, written + normalized.size()});
    written += normalized.size();
  }
  return after;
}

}  // namespace qgpu
