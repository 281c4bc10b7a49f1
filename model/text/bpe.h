// Byte pair encoding: a piece of text as the tokens that its bytes merge to, lowest merge first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace qgpu {

class Bpe {
 public:
  // The token that a single byte is; -1 where there is none.
  void SetByte(uint8_t byte, int32_t id) { byte_ids_[byte] = id; }
  void ReserveMerges(size_t count) { merges_.reserve(count); }
  // Tokens `left` and `right` become `merged`. Lower ranks first; a pair given again replaces the one before.
  void AddMerge(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    merges_[Key(left, right)] = {rank, merged};
  }

  // Working memory of a call, to be used again.
  struct Scratch {
    struct Symbol {
      int32_t id, previous, next;  // neighbours by index, -1 at the ends
      bool alive;
    };
    struct Candidate {
      uint32_t rank;
      int32_t position, merged;  // of the left symbol; what the pair becomes
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Appends the tokens of a piece (below 2 GiB) whose bytes all have one. Time n log n.
  void Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  void Offer(int32_t left, int32_t right, Scratch& scratch) const;

  int32_t byte_ids_[256] = {};
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace qgpu
