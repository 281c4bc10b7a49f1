// Text to token ids and back, as the public `tokenizers` library does it with the same tokenizer.json: the byte-level
// BPE of Qwen3.5 and of every tokenizer of that form. docs/TOKENIZER.md says how, and what is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/status.h"
#include "model/text/added_tokens.h"
#include "model/text/bpe.h"
#include "model/text/split_pattern.h"
#include "model/text/text_ranges.h"
#include "model/text/tokenizer_file.h"

namespace qgpu {

// Longest text that is taken at once.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

class Tokenizer {
 public:
  // From DIRECTORY/tokenizer.json. kNotFound: no such file. kInvalidArgument: see ReadTokenizerFile, and a vocabulary
  // that contradicts itself (an id given twice, a merge of tokens it does not have, a byte of UTF-8 without token).
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Open(const std::string& directory);
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Parse(std::string_view json);

  enum class SpecialTokens { kFound, kAsText };
  // The ids of a text; thread-safe. With kAsText, "<|im_end|>" in the text is no special token but its characters: for
  // text that a user wrote. kInvalidArgument: invalid UTF-8, with the offset; more than kMaxTextBytes.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              SpecialTokens special = SpecialTokens::kFound) const;
  // The same, but no added token, special or not, has a character in `plain`: ranges of the text, ascending, apart, on
  // borders of characters. Everything else is as without them: they cut nothing apart.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, std::span<const TextRange> plain) const;

  // The added tokens that are found in `valid` UTF-8 as they are, or where it is in normalised form already, in order.
  struct Occurrence {
    int32_t id;
    TextRange range;
  };
  std::vector<Occurrence> FindAddedTokens(std::string_view valid) const;
  // The first and last characters of all added tokens, but for white space at their ends. Ascending, none twice.
  const std::u32string& added_token_ends() const { return added_token_ends_; }
  // Valid UTF-8 in the form in which normalised added tokens are searched for; as it is, if there are none.
  std::string InSearchedForm(std::string_view valid) const;

  // The text of ids; bytes that are no UTF-8 become U+FFFD. Ids without a token are left out, as the reference does:
  // Contains() tells. `skip_special` leaves special tokens out.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  bool Contains(int32_t id) const { return id >= 0 && id < size() && tokens_[id].used; }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }  // the greatest id and one
  // The token's bytes in a decoded text, its text in the vocabulary, whether it is special; nothing where there is
  // none.
  std::string_view Bytes(int32_t id) const { return Contains(id) ? tokens_[id].bytes : std::string_view(); }
  std::string_view Text(int32_t id) const { return Contains(id) ? tokens_[id].text : std::string_view(); }
  bool IsSpecial(int32_t id) const { return Contains(id) && tokens_[id].special; }
  std::optional<int32_t> Find(std::string_view text) const;  // by its text in the vocabulary

 private:
  struct Token {
    std::string text, bytes;
    bool used = false, special = false;
  };
  struct Encoding;  // one call of Encode

  Tokenizer() = default;
  absl::Status Build(const TokenizerFile& file);
  absl::Status AddVocabulary(const TokenizerFile& file);
  absl::Status AddMerges(const TokenizerFile& file);
  absl::Status AddAddedTokens(const TokenizerFile& file);
  void AddEnds(std::string_view token);
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool skip_special,
                                              std::span<const TextRange> plain) const;
  void SetToken(int32_t id, const std::string& text, bool special);

  std::vector<Token> tokens_;  // by id
  absl::flat_hash_map<std::string, int32_t> ids_;
  bool nfc_ = false, ignore_merges_ = false;
  std::vector<SplitPattern> splits_;
  Bpe bpe_;
  absl::flat_hash_map<std::string, int32_t> whole_pieces_;  // bytes to id, with ignore_merges
  AddedTokenFinder raw_added_, normalized_added_;
  std::u32string added_token_ends_;
};

// kInvalidArgument if a model with this many token ids cannot be used with the tokenizer: ids beyond the vocabulary, or
// one of the special tokens that a chat needs is missing. The message says which, and that it is of another model.
absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, int64_t vocabulary,
                                std::span<const std::string> needed_tokens);

}  // namespace qgpu
