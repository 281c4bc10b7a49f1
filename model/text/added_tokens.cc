#include "model/text/added_tokens.h"

#include <algorithm>

#include "model/text/unicode.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

uint64_t Edge(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }

// The start of the last character of text[0, end), end > 0.
size_t LastCharacter(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
  return start;
}

bool WordBefore(std::string_view text, size_t end) {
  if (end == 0) return false;
  size_t start = LastCharacter(text, end);
  return IsWordCharacter(NextCodePoint(text, start));
}

bool WordAfter(std::string_view text, size_t start) {
  return start < text.size() && IsWordCharacter(NextCodePoint(text, start));
}

size_t BeforeWhiteSpace(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    const size_t start = LastCharacter(text, end);
    size_t at = start;
    if (!IsWhiteSpace(NextCodePoint(text, at))) break;
    end = start;
  }
  return end;
}

size_t BehindWhiteSpace(std::string_view text, size_t start) {
  while (start < text.size()) {
    size_t next = start;
    if (!IsWhiteSpace(NextCodePoint(text, next))) break;
    start = next;
  }
  return start;
}

}  // namespace

void AddedTokenFinder::Add(const std::string& text, const AddedToken& token) {
  first_bytes_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [edge, is_new] = edges_.try_emplace(Edge(node, byte), static_cast<uint32_t>(ends_.size()));
    node = edge->second;
    if (is_new) ends_.push_back(-1);
  }
  if (ends_[node] >= 0) return;
  ends_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

AddedTokenFinder::Found AddedTokenFinder::LongestAt(std::string_view text, size_t position) const {
  Found found;
  uint32_t node = 0;
  for (size_t at = position; at < text.size(); ++at) {
    const auto edge = edges_.find(Edge(node, text[at]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (ends_[node] >= 0) found = {&tokens_[ends_[node]], at + 1 - position};
  }
  return found;
}

void AddedTokenFinder::Cut(std::string_view valid, bool skip_special, std::span<const TextRange> plain,
                           const std::function<void(const AddedToken*, std::string_view)>& part) const {
  size_t done = 0, at = 0;
  auto range = plain.begin();
  while (at < valid.size()) {
    while (range != plain.end() && range->end <= at) ++range;
    if (range != plain.end() && range->begin <= at) {
      at = range->end;
      continue;
    }
    if (!first_bytes_[static_cast<unsigned char>(valid[at])]) {
      ++at;
      continue;
    }
    const size_t border = range != plain.end() ? std::min(range->begin, valid.size()) : valid.size();
    const Found found = LongestAt(valid.substr(0, border), at);
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    size_t start = at, end = at + found.size;
    at = end;
    const AddedToken& token = *found.token;
    if (skip_special && token.special) continue;
    if (token.single_word && (WordBefore(valid, start) || WordAfter(valid, end))) continue;
    if (token.lstrip) start = std::max(done, BeforeWhiteSpace(valid, start, std::min(done, start)));
    if (token.rstrip) end = BehindWhiteSpace(valid, end);
    if (start >= end) continue;  // the token before has taken all of its white space
    if (start > done) part(nullptr, valid.substr(done, start - done));
    part(&token, valid.substr(start, end - start));
    done = end;
  }
  if (done < valid.size()) part(nullptr, valid.substr(done));
}

}  // namespace qgpu
