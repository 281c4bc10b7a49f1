#include "common/nearest.h"

#include <algorithm>

#include "fmt/format.h"

namespace qgpu {
namespace {

// Letters left out, added, replaced or exchanged with their neighbour (Damerau-Levenshtein, each place edited once).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = last;
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(std::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kShortestBeginning = 3;
  std::string nearest;
  size_t least = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : known) {
    const bool begins = typed.size() >= kShortestBeginning && name.starts_with(typed);
    const size_t distance = begins ? 1 : EditDistance(typed, name);
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(typed, known);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace qgpu
