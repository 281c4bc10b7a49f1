// Searching, strings and small search problems.
#include <numeric>
#include <string>

#include "kernels/references.h"

namespace qgpu {
namespace {

std::string TextOf(Arguments& m, const char* buffer, const char* length) {
  std::string text;
  for (size_t i = 0; i < m.Count(length); ++i) text.push_back(static_cast<char>(m.Byte(buffer, i)));
  return text;
}

uint32_t PlaceOf(Arguments& m, size_t i) {
  for (size_t place = 0; place < m.Count("count"); ++place) {
    if (m.Buffer("sorted")[place] == m.Buffer("keys")[i]) return static_cast<uint32_t>(place);
  }
  return ~0u;
}

void StringMatch(Arguments& m) {
  const std::string text = TextOf(m, "text", "length"), pattern = TextOf(m, "pattern", "pattern_length");
  const size_t threads = m.grid.Count() * m.block.Count();
  for (size_t at = text.find(pattern); at != std::string::npos && at < threads; at = text.find(pattern, at + 1)) {
    ++m.Buffer("count")[0];
    m.Buffer("first")[0] = Unsigned(std::min(Signed(m.Buffer("first")[0]), Signed(static_cast<uint32_t>(at))));
  }
}

void Caesar(Arguments& m) {
  const std::string small = "abcdefghijklmnopqrstuvwxyz", large = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (size_t i = 0; i < m.Threads("length"); ++i) {
    for (const std::string& alphabet : {small, large}) {
      const size_t letter = alphabet.find(static_cast<char>(m.Byte("text", i)));
      if (letter == std::string::npos) continue;
      m.SetByte("text", i, static_cast<uint8_t>(alphabet[(letter + m.Count("shift")) % 26]));
      break;
    }
  }
}

// Over all placements of one queen a row and a column.
uint32_t WaysToPlaceQueens(int n) {
  if (n == 0) return 0;
  std::vector<int> column(static_cast<size_t>(n));
  std::iota(column.begin(), column.end(), 0);
  uint32_t ways = 0;
  do {
    bool safe = true;
    for (int a = 0; a < n; ++a) {
      for (int b = a + 1; b < n; ++b) {
        safe &= std::abs(column[static_cast<size_t>(a)] - column[static_cast<size_t>(b)]) != b - a;
      }
    }
    ways += safe;
  } while (std::next_permutation(column.begin(), column.end()));
  return ways;
}

// Over all subsets of the items. Values are not negative but for those that no best subset has.
void Knapsack(Arguments& m) {
  const size_t items = m.Count("items");
  int64_t best = 0;
  for (uint32_t subset = 0; subset < 1u << items; ++subset) {
    int64_t weight = 0, value = 0;
    for (size_t i = 0; i < items; ++i) {
      if ((subset >> i & 1) == 0) continue;
      weight += Signed(m.Buffer("weight")[i]);
      value += Signed(m.Buffer("value")[i]);
    }
    if (weight <= m.Scalar("capacity")) best = std::max(best, value);
  }
  m.Buffer("best")[0] = Unsigned(best);
}

// By the definition: remove, insert or change the first letter.
uint32_t EditDistance(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return static_cast<uint32_t>(a.size() + b.size());
  if (a[0] == b[0]) return EditDistance(a.substr(1), b.substr(1));
  return 1 +
         std::min({EditDistance(a.substr(1), b), EditDistance(a, b.substr(1)), EditDistance(a.substr(1), b.substr(1))});
}

}  // namespace

ReferenceTable TextReferences() {
  return {
      {"binary_search", PerElement({"sorted", "count", "keys", "place", "n"}, "place", "n", PlaceOf)},
      {"string_match", {{"text", "length", "pattern", "pattern_length", "count", "first"}, StringMatch}},
      {"caesar", {{"text", "shift", "length"}, Caesar}},
      {"n_queens_count",
       {{"n", "count"}, [](Arguments& m) { m.Buffer("count")[0] += WaysToPlaceQueens(m.Scalar("n")); }}},
      {"knapsack_small", {{"weight", "value", "items", "capacity", "best"}, Knapsack}},
      {"edit_distance_small",
       {{"a", "a_length", "b", "b_length", "out"},
        [](Arguments& m) {
          m.Buffer("out")[0] = EditDistance(TextOf(m, "a", "a_length"), TextOf(m, "b", "b_length"));
        }}},
  };
}

}  // namespace qgpu
