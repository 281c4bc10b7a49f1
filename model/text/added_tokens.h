// Tokens that are found in text as they are, before it is split into pieces: <|im_start|> and its like.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "model/text/text_ranges.h"

namespace qgpu {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // left out of text for people; not found in text that may hold none
  bool normalized = false;   // searched for after normalisation, in normalised form
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool single_word = false;  // only where no word character touches it
};

// Finds added tokens: of those that start leftmost, the longest.
class AddedTokenFinder {
 public:
  // `text` is what to search for, not empty. The first of two tokens with the same text wins.
  void Add(const std::string& text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Cuts `valid` UTF-8 into tokens and what lies between (never empty), in order: calls with token or nullptr. With
  // `skip_special`, special tokens are as if they were not there; none has a character in `plain` (ranges of the text,
  // ascending, apart). Time: the text's length times the longest token.
  void Cut(std::string_view valid, bool skip_special, std::span<const TextRange> plain,
           const std::function<void(const AddedToken*, std::string_view)>& part) const;

 private:
  struct Found {
    const AddedToken* token = nullptr;
    size_t size = 0;
  };
  Found LongestAt(std::string_view text, size_t position) const;  // within text

  std::vector<AddedToken> tokens_;
  // A trie: (node, byte) to node, and the token that ends in a node, or -1. Node 0 is the root.
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> ends_ = {-1};
  bool first_bytes_[256] = {};
};

}  // namespace qgpu
