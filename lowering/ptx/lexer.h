// PTX text to tokens, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace qgpu::ptx {

struct Token {
  enum class Kind {
    kEnd,
    kIdentifier,  // foo, $L__BB0_1, %r1
    kDot,         // .global, .shared::cta: `text` without the leading dot
    kInteger,     // `value`, `is_unsigned` for a U suffix or a value above 2^63 - 1
    kFloat,       // `value` holds the bits, `is_double` says of what
    kString,      // `text` without the quotes
    kPunctuation,
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  int line = 1;
  bool glued = false;  // nothing between this and the token before it
  uint64_t value = 0;
  bool is_unsigned = false;
  bool is_double = false;

  bool Is(std::string_view punctuation) const { return kind == Kind::kPunctuation && text == punctuation; }
  bool IsDot(std::string_view word) const { return kind == Kind::kDot && text == word; }
  bool IsWord(std::string_view word) const { return kind == Kind::kIdentifier && text == word; }
};

// Reads tokens of `text`, which must outlive it and its tokens. After an error or the end every further call returns
// kEnd; the error is kept in status() with its line in front.
class Lexer {
 public:
  Lexer(std::string file_name, std::string_view text);

  const Token& Peek() const { return tokens_[0]; }
  const Token& PeekSecond() const { return tokens_[1]; }
  Token Take();

  const absl::Status& status() const { return status_; }
  // kInvalidArgument "FILE:LINE: message".
  absl::Status Error(int line, const std::string& message) const;

 private:
  Token Scan();
  bool SkipBlanks();
  Token ScanNumber(Token token);
  Token ScanHexFloat(Token token, size_t digits);
  Token ScanDecimal(Token token);
  Token Fail(const std::string& message);
  char At(size_t offset) const { return position_ + offset < text_.size() ? text_[position_ + offset] : '\0'; }

  std::string file_name_;
  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  absl::Status status_;
  Token tokens_[2];
};

}  // namespace qgpu::ptx
