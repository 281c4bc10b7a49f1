#include "model/text/bpe.h"

#include <algorithm>

namespace qgpu {
namespace {

// The heap's top is the lowest rank, and of these the leftmost.
bool Later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

void Bpe::Offer(int32_t left, int32_t right, Scratch& scratch) const {
  if (left < 0 || right < 0) return;
  const auto merge = merges_.find(Key(scratch.symbols[left].id, scratch.symbols[right].id));
  if (merge == merges_.end()) return;
  scratch.heap.push_back({merge->second.rank, left, merge->second.merged});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), Later);
}

void Bpe::Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.heap.clear();
  const auto size = static_cast<int32_t>(piece.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols.push_back({byte_ids_[static_cast<uint8_t>(piece[i])], i - 1, i + 1 < size ? i + 1 : -1, true});
  }
  for (int32_t i = 0; i + 1 < size; ++i) Offer(i, i + 1, scratch);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), Later);
    const Scratch::Candidate best = scratch.heap.back();
    scratch.heap.pop_back();
    auto& left = symbols[best.position];
    if (!left.alive || left.next < 0) continue;
    auto& right = symbols[left.next];
    // The pair may have changed since it was offered. As in the reference, what counts is what it would become.
    const auto merge = merges_.find(Key(left.id, right.id));
    if (merge == merges_.end() || merge->second.merged != best.merged) continue;
    left.id = best.merged;
    right.alive = false;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.position;
    Offer(left.previous, best.position, scratch);
    Offer(best.position, left.next, scratch);
  }
  for (int32_t i = 0; i >= 0 && i < size; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace qgpu
