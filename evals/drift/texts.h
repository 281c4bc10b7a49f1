// The texts that drift is measured on, shipped in the program, and their token ids for a base.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu {

struct DriftText {
  std::string name, kind, licence, source;
  std::string text;
};

// texts/manifest.json lists them. kInternal, saying what, where that and the files do not fit together.
absl::StatusOr<std::vector<DriftText>> ShippedDriftTexts();
// The same of any manifest; `file` gives a file's text, or nullptr where there is none.
absl::StatusOr<std::vector<DriftText>> ParseDriftManifest(std::string_view manifest,
                                                          const std::string_view* (*file)(std::string_view name));

// What a word of the command line names: one shipped text, "all" of them, or else a file of UTF-8 text. Each at most
// once. kInvalidArgument, with the file and the offset: no UTF-8.
absl::StatusOr<std::vector<DriftText>> DriftTextsNamed(const std::vector<std::string>& words);

struct DriftTokens {
  std::string name;
  std::vector<int64_t> ids;
};

// How text becomes ids of a base: by its tokenizer.json, or where it has none, the bytes modulo its vocabulary, which
// is no language the base knows but text-like ids all the same.
class DriftEncoder {
 public:
  static absl::StatusOr<DriftEncoder> Open(const std::string& base_directory, int64_t vocabulary);

  // At most `positions` + 1 ids from the beginning (0: all), since the last one is only predicted. kInvalidArgument,
  // naming the text: fewer than two ids, or one outside the vocabulary.
  absl::StatusOr<DriftTokens> Encode(const DriftText& text, int64_t positions) const;
  // Some ids as printable text, for people: valid UTF-8 without line ends.
  std::string Show(const std::vector<int64_t>& ids) const;
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  // "tokenizer.json of the base", or what stands in for it.
  std::string Description() const;

 private:
  int64_t vocabulary_ = 0;
  std::shared_ptr<const class Tokenizer> tokenizer_;
};

}  // namespace qgpu
