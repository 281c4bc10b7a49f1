// Parts of a text in which no added token is found: what a user wrote between the turns that a template wrote.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace qgpu {

// Bytes [begin, end) of a text, on borders of characters.
struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

// What of `ranges` (ascending, apart) lies in [begin, end), counted from `begin`.
std::vector<TextRange> RangesWithin(std::span<const TextRange> ranges, size_t begin, size_t end);

// Where `ranges` of `valid` UTF-8 are once it is in Normalization Form C. A character that comes of several is in a
// range if one of them was; where a run of characters outside ASCII changes, all of it is in a range if one of it was.
std::vector<TextRange> RangesAfterNfc(std::string_view valid, std::span<const TextRange> ranges);

}  // namespace qgpu
