// What threads work out together: reductions, votes, scans, sorting. Here a list is gone through from front to back.
#include <limits>
#include <numeric>

#include "kernels/references.h"

namespace qgpu {
namespace {

constexpr int32_t kIntMin = std::numeric_limits<int32_t>::min(), kIntMax = std::numeric_limits<int32_t>::max();

bool LessSigned(uint32_t a, uint32_t b) { return Signed(a) < Signed(b); }

// Elements below the scalar "n" of `buffer` that thread block `block` has a thread for.
Words PartOf(Arguments& m, const char* buffer, size_t block) {
  const size_t threads = m.block.Count();
  const Words& all = m.Buffer(buffer);
  const size_t n = m.Count("n");
  const size_t begin = std::min(n, block * threads), end = std::min(n, begin + threads);
  return Words(all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end));
}

void SumPerBlock(Arguments& m) {
  for (size_t block = 0; block < m.grid.Count(); ++block) {
    const Words part = PartOf(m, "in", block);
    m.Buffer("out")[block] = std::accumulate(part.begin(), part.end(), 0u);
  }
}

void MaxOfAll(Arguments& m) {
  int32_t largest = kIntMin;
  for (size_t i = 0; i < m.Count("n"); ++i) largest = std::max(largest, Signed(m.Buffer("in")[i]));
  m.Buffer("out")[0] = Unsigned(largest);
}

void MinOfAll(Arguments& m) {
  int32_t smallest = std::min(Signed(m.Buffer("out")[0]), kIntMax);
  for (size_t i = 0; i < m.Threads("n"); ++i) smallest = std::min(smallest, Signed(m.Buffer("in")[i]));
  m.Buffer("out")[0] = Unsigned(smallest);
}

void Argmax(Arguments& m) {
  const Words& in = m.Buffer("in");
  const auto end = in.begin() + static_cast<ptrdiff_t>(m.Count("n"));
  if (end != in.begin()) m.Buffer("out")[0] = Unsigned(std::max_element(in.begin(), end, LessSigned) - in.begin());
}

void CountIf(Arguments& m) {
  for (size_t i = 0; i < m.Threads("n"); ++i) m.Buffer("count")[0] += Signed(m.Buffer("in")[i]) > m.Scalar("threshold");
}

void AllAnyVote(Arguments& m) {
  for (size_t block = 0; block < m.grid.Count(); ++block) {
    uint32_t which = 0;
    for (size_t lane = 0; lane < 32; ++lane) {
      if (Signed(m.Buffer("in")[32 * block + lane]) > 0) which |= 1u << lane;
    }
    m.Buffer("all")[block] = which == ~0u;
    m.Buffer("any")[block] = which != 0;
    m.Buffer("which")[block] = which;
  }
}

// `offset` 0: sums with the element itself; 1: of those before it only.
void ScanPerBlock(Arguments& m, size_t offset) {
  for (size_t block = 0; block < m.grid.Count(); ++block) {
    const Words part = PartOf(m, "in", block);
    for (size_t i = 0; i < part.size(); ++i) {
      const auto end = part.begin() + static_cast<ptrdiff_t>(i + 1 - offset);
      m.Buffer("out")[block * m.block.Count() + i] = std::accumulate(part.begin(), end, 0u);
    }
  }
}

void SortInPlace(Arguments& m) {
  Words& data = m.Buffer("data");
  std::stable_sort(data.begin(), data.begin() + static_cast<ptrdiff_t>(m.Count("n")), LessSigned);
}

void SortToOut(Arguments& m) {
  const size_t n = m.Count("n");
  Words sorted(m.Buffer("in").begin(), m.Buffer("in").begin() + static_cast<ptrdiff_t>(n));
  std::stable_sort(sorted.begin(), sorted.end(), LessSigned);
  std::copy(sorted.begin(), sorted.end(), m.Buffer("out").begin());
}

void MergeSorted(Arguments& m) {
  const Words &a = m.Buffer("a"), &b = m.Buffer("b");
  std::merge(a.begin(), a.begin() + static_cast<ptrdiff_t>(m.Count("a_count")), b.begin(),
             b.begin() + static_cast<ptrdiff_t>(m.Count("b_count")), m.Buffer("out").begin(), LessSigned);
}

void StreamCompact(Arguments& m) {
  uint32_t kept = 0;
  for (size_t i = 0; i < m.Count("n"); ++i) {
    if (m.Buffer("in")[i] != 0) m.Buffer("out")[kept++] = m.Buffer("in")[i];
  }
  m.Buffer("count")[0] = kept;
}

void RunLength(Arguments& m) {
  std::vector<std::pair<uint32_t, uint32_t>> runs;  // value, length
  for (size_t i = 0; i < m.Count("n"); ++i) {
    const uint32_t value = m.Buffer("in")[i];
    if (runs.empty() || runs.back().first != value) runs.emplace_back(value, 0);
    ++runs.back().second;
  }
  for (size_t r = 0; r < runs.size(); ++r) {
    m.Buffer("values")[r] = runs[r].first;
    m.Buffer("lengths")[r] = runs[r].second;
  }
  m.Buffer("runs")[0] = static_cast<uint32_t>(runs.size());
}

void Dot(Arguments& m) {
  const Words& a = m.Buffer("a");
  m.Buffer("out")[0] =
      std::inner_product(a.begin(), a.begin() + static_cast<ptrdiff_t>(m.Count("n")), m.Buffer("b").begin(), 0u);
}

}  // namespace

ReferenceTable CollectiveReferences() {
  return {
      {"dot", {{"a", "b", "out", "n"}, Dot}},
      {"sum_shared", {{"in", "out", "n"}, SumPerBlock}},
      {"sum_shuffle", {{"in", "out", "n"}, SumPerBlock}},
      {"max_reduce", {{"in", "out", "n"}, MaxOfAll}},
      {"min_reduce", {{"in", "out", "n"}, MinOfAll}},
      {"argmax", {{"in", "out", "n"}, Argmax}},
      {"count_if", {{"in", "threshold", "count", "n"}, CountIf}},
      {"all_any_vote", {{"in", "all", "any", "which"}, AllAnyVote}},
      {"inclusive_scan", {{"in", "out", "n"}, [](Arguments& m) { ScanPerBlock(m, 0); }}},
      {"exclusive_scan_shared", {{"in", "out", "n"}, [](Arguments& m) { ScanPerBlock(m, 1); }}},
      {"bitonic_sort", {{"data", "n"}, SortInPlace}},
      {"odd_even_sort", {{"data", "n"}, SortInPlace}},
      {"rank_sort", {{"in", "out", "n"}, SortToOut}},
      {"merge_sorted", {{"a", "a_count", "b", "b_count", "out"}, MergeSorted}},
      {"stream_compact", {{"in", "out", "count", "n"}, StreamCompact}},
      {"run_length", {{"in", "values", "lengths", "runs", "n"}, RunLength}},
  };
}

}  // namespace qgpu
