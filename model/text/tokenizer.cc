#include "model/text/tokenizer.h"

#include <algorithm>

#include "model/base/byte_tokenizer.h"
#include "model/base/untrusted_json.h"
#include "model/text/byte_level.h"
#include "model/text/unicode.h"
#include "model/text/utf8.h"

namespace qgpu {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxCachedPieces = 100'000;
constexpr size_t kLongestCachedPiece = 128;

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Open(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  QGPU_ASSIGN_OR_RETURN(const std::string json, ReadUntrustedText(path, kMaxFileBytes));
  auto tokenizer = Parse(json);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      fmt::format("{}: {}", path, std::string(tokenizer.status().message())));
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Parse(std::string_view json) {
  QGPU_ASSIGN_OR_RETURN(const TokenizerFile file, ReadTokenizerFile(json));
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer);
  QGPU_RETURN_IF_ERROR(tokenizer->Build(file));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

absl::Status Tokenizer::Build(const TokenizerFile& file) {
  nfc_ = file.nfc;
  ignore_merges_ = file.ignore_merges;
  for (const std::string& pattern : file.split_patterns) {
    QGPU_ASSIGN_OR_RETURN(SplitPattern split, SplitPattern::Compile(pattern));
    splits_.push_back(std::move(split));
  }
  QGPU_RETURN_IF_ERROR(AddVocabulary(file));
  QGPU_RETURN_IF_ERROR(AddMerges(file));
  return AddAddedTokens(file);
}

void Tokenizer::SetToken(int32_t id, const std::string& text, bool special) {
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[id] = {text, BytesOfToken(text), true, special};
}

absl::Status Tokenizer::AddVocabulary(const TokenizerFile& file) {
  tokens_.reserve(file.vocabulary.size() + file.added.size());
  ids_.reserve(file.vocabulary.size() + file.added.size());
  for (const TokenizerFile::Token& token : file.vocabulary) {
    if (Contains(token.id)) {
      return absl::InvalidArgumentError(fmt::format("model.vocab: \"{}\" and \"{}\" have the same id {}",
                                                    tokens_[token.id].text, token.text, token.id));
    }
    SetToken(token.id, token.text, /*special=*/false);
    if (!ids_.emplace(token.text, token.id).second) {
      return absl::InvalidArgumentError(fmt::format("model.vocab: \"{}\" is given twice", token.text));
    }
    if (ignore_merges_) whole_pieces_[tokens_[token.id].bytes] = token.id;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = ByteLevelCharacter(static_cast<uint8_t>(byte));
    const auto id = ids_.find(character);
    if (id != ids_.end()) {
      bpe_.SetByte(static_cast<uint8_t>(byte), id->second);
    } else if (byte != 0xc0 && byte != 0xc1 && byte < 0xf5) {  // those never occur in UTF-8
      return absl::InvalidArgumentError(
          fmt::format("model.vocab: byte 0x{:02x} has no token (\"{}\"), so not every text has one", byte, character));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::AddMerges(const TokenizerFile& file) {
  bpe_.ReserveMerges(file.merges.size());
  for (size_t rank = 0; rank < file.merges.size(); ++rank) {
    const TokenizerFile::Merge& merge = file.merges[rank];
    int32_t ids[3];
    const std::string* const texts[3] = {&merge.left, &merge.right, nullptr};
    const std::string merged = merge.left + merge.right;
    for (int i = 0; i < 3; ++i) {
      const std::string& text = i < 2 ? *texts[i] : merged;
      const auto id = ids_.find(text);
      if (id == ids_.end()) {
        return absl::InvalidArgumentError(fmt::format("model.merges[{}]: \"{}\" is not in the vocabulary", rank, text));
      }
      ids[i] = id->second;
    }
    bpe_.AddMerge(ids[0], ids[1], static_cast<uint32_t>(rank), ids[2]);
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::AddAddedTokens(const TokenizerFile& file) {
  // As the reference numbers them, whatever the file says: behind the vocabulary, one after the other.
  auto next = static_cast<int32_t>(file.vocabulary.size());
  for (const AddedToken& token : file.added) {
    const auto known = ids_.find(token.content);
    const int32_t expected = known != ids_.end() ? known->second : next;
    if (token.id != expected || (known == ids_.end() && Contains(token.id))) {
      return absl::InvalidArgumentError(fmt::format("added_tokens: \"{}\" has id {}, but its place is {}{}",
                                                    token.content, token.id, expected,
                                                    Contains(expected) ? ", where the vocabulary has a token" : ""));
    }
    next = std::max(next, token.id + 1);
    // It is found, and written out, in normalised form; its name is what the file says.
    std::string text = token.content;
    if (token.normalized && nfc_) NormalizeNfc(token.content, text);
    const bool special = token.special || IsSpecial(token.id);
    SetToken(token.id, text, special);
    ids_[token.content] = token.id;
    (token.normalized ? normalized_added_ : raw_added_).Add(text, token);
    AddEnds(text);
  }
  return absl::OkStatus();
}

void Tokenizer::AddEnds(std::string_view token) {
  std::u32string characters = ToCodePoints(token);
  std::erase_if(characters, IsWhiteSpace);
  if (characters.empty()) return;
  for (const char32_t end : {characters.front(), characters.back()}) {
    const auto place = std::lower_bound(added_token_ends_.begin(), added_token_ends_.end(), end);
    if (place == added_token_ends_.end() || *place != end) added_token_ends_.insert(place, end);
  }
}

std::optional<int32_t> Tokenizer::Find(std::string_view text) const {
  const auto id = ids_.find(absl::string_view(text.data(), text.size()));
  return id == ids_.end() ? std::nullopt : std::optional<int32_t>(id->second);
}

// The stages in their order, each cutting what the one before left over.
struct Tokenizer::Encoding {
  using Ranges = std::span<const TextRange>;

  const Tokenizer& tokenizer;
  bool skip_special;
  absl::Status status;
  std::vector<int32_t> ids;
  Bpe::Scratch scratch;
  absl::flat_hash_map<std::string, std::vector<int32_t>> cache;

  void Raw(std::string_view text, Ranges plain) {
    if (tokenizer.raw_added_.empty()) return Normalize(text, plain);
    tokenizer.raw_added_.Cut(text, skip_special, plain, [&](const AddedToken* token, std::string_view part) {
      if (token != nullptr) return ids.push_back(token->id);
      const auto begin = static_cast<size_t>(part.data() - text.data());
      Normalize(part, plain.empty() ? std::vector<TextRange>() : RangesWithin(plain, begin, begin + part.size()));
    });
  }

  void Normalize(std::string_view text, Ranges plain) {
    const std::string_view before = text;
    std::string normalized;
    if (tokenizer.nfc_ && NormalizeNfc(text, normalized)) text = normalized;
    if (tokenizer.normalized_added_.empty()) return Split(text, 0);
    std::vector<TextRange> moved;
    if (!plain.empty() && text.data() != before.data()) plain = moved = RangesAfterNfc(before, plain);
    tokenizer.normalized_added_.Cut(text, skip_special, plain, [this](const AddedToken* token, std::string_view part) {
      token != nullptr ? ids.push_back(token->id) : Split(part, 0);
    });
  }

  void Split(std::string_view text, size_t pattern) {
    if (!status.ok()) return;
    if (pattern == tokenizer.splits_.size()) return Piece(text);
    const absl::Status split =
        tokenizer.splits_[pattern].Split(text, [&](std::string_view piece) { Split(piece, pattern + 1); });
    if (status.ok()) status = split;
  }

  void Piece(std::string_view piece) {
    if (tokenizer.ignore_merges_) {
      const auto whole = tokenizer.whole_pieces_.find(absl::string_view(piece.data(), piece.size()));
      if (whole != tokenizer.whole_pieces_.end()) return ids.push_back(whole->second);
    }
    if (piece.size() > kLongestCachedPiece) return tokenizer.bpe_.Encode(piece, scratch, ids);
    const auto known = cache.find(absl::string_view(piece.data(), piece.size()));
    if (known != cache.end()) {
      ids.insert(ids.end(), known->second.begin(), known->second.end());
      return;
    }
    const size_t before = ids.size();
    tokenizer.bpe_.Encode(piece, scratch, ids);
    if (cache.size() < kMaxCachedPieces) {
      cache.emplace(piece, std::vector<int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end()));
    }
  }
};

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, SpecialTokens special) const {
  return Encode(text, special == SpecialTokens::kAsText, {});
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, std::span<const TextRange> plain) const {
  return Encode(text, /*skip_special=*/false, plain);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool skip_special,
                                                       std::span<const TextRange> plain) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the text has {} bytes; at most {} are taken at once", text.size(), kMaxTextBytes));
  }
  QGPU_RETURN_IF_ERROR(CheckUtf8(text, "the text"));
  Encoding encoding{*this, skip_special, absl::OkStatus(), {}, {}, {}};
  if (!text.empty()) encoding.Raw(text, plain);
  QGPU_RETURN_IF_ERROR(encoding.status);
  return std::move(encoding.ids);
}

std::vector<Tokenizer::Occurrence> Tokenizer::FindAddedTokens(std::string_view valid) const {
  std::vector<Occurrence> found;
  const auto note = [&](const AddedToken* token, std::string_view part) {
    const auto begin = static_cast<size_t>(part.data() - valid.data());
    if (token != nullptr) found.push_back({token->id, {begin, begin + part.size()}});
    return token != nullptr;
  };
  raw_added_.Cut(valid, /*skip_special=*/false, {}, [&](const AddedToken* token, std::string_view part) {
    if (!note(token, part)) normalized_added_.Cut(part, /*skip_special=*/false, {}, note);
  });
  return found;
}

std::string Tokenizer::InSearchedForm(std::string_view valid) const {
  std::string normalized;
  const bool changed = nfc_ && !normalized_added_.empty() && NormalizeNfc(valid, normalized);
  return changed ? normalized : std::string(valid);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !IsSpecial(id)) bytes += Bytes(id);
  }
  return ReplaceInvalidUtf8(bytes);
}

absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, int64_t vocabulary,
                                std::span<const std::string> needed_tokens) {
  if (tokenizer.size() > vocabulary) {
    return absl::InvalidArgumentError(fmt::format(
        "the tokenizer has ids up to {}, but the model knows only {}: it is the tokenizer of another model; "
        "take tokenizer.json from the folder of the weights",
        tokenizer.size() - 1, vocabulary));
  }
  for (const std::string& needed : needed_tokens) {
    if (tokenizer.Find(needed).has_value()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "the tokenizer has no token \"{}\", which the chat needs: it is the tokenizer of another model; take "
        "tokenizer.json from the folder of the weights",
        needed));
  }
  return absl::OkStatus();
}

}  // namespace qgpu
