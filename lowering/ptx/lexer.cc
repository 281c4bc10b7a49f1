#include "lowering/ptx/lexer.h"

#include <bit>
#include <cstdlib>

namespace qgpu::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsWordStart(char c) { return IsLetter(c) || c == '_' || c == '$'; }
bool IsWord(char c) { return IsWordStart(c) || IsDigit(c); }

// Value of a digit up to base 16, or 16.
int DigitValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

constexpr std::string_view kTwoCharacterOperators[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
constexpr std::string_view kPunctuation = "{}[]()<>,;:@!=+-*/%|&^~?";

}  // namespace

Lexer::Lexer(std::string file_name, std::string_view text) : file_name_(std::move(file_name)), text_(text) {
  tokens_[0] = Scan();
  tokens_[1] = Scan();
}

Token Lexer::Take() {
  Token taken = tokens_[0];
  tokens_[0] = tokens_[1];
  tokens_[1] = Scan();
  return taken;
}

absl::Status Lexer::Error(int line, const std::string& message) const {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_name_, line, message));
}

Token Lexer::Fail(const std::string& message) {
  if (status_.ok()) status_ = Error(line_, message);
  position_ = text_.size();
  Token end;
  end.line = line_;
  return end;
}

// Skips white space, comments and preprocessor lines; false when a comment does not end.
bool Lexer::SkipBlanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (c == '#' || (c == '/' && At(1) == '/')) {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == '/' && At(1) == '*') {
      const int first_line = line_;
      position_ += 2;
      while (position_ < text_.size() && !(text_[position_] == '*' && At(1) == '/')) {
        if (text_[position_++] == '\n') ++line_;
      }
      if (position_ >= text_.size()) {
        line_ = first_line;
        return false;
      }
      position_ += 2;
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::Scan() {
  const size_t before = position_;
  if (!SkipBlanks()) return Fail("comment without an end");
  Token token;
  token.line = line_;
  token.glued = position_ == before && position_ > 0;
  if (position_ >= text_.size()) return token;
  const size_t start = position_;
  const char c = text_[position_];
  if (IsWordStart(c) || (c == '%' && IsWordStart(At(1)))) {
    ++position_;
    while (IsWord(At(0))) ++position_;
    token.kind = Token::Kind::kIdentifier;
    token.text = text_.substr(start, position_ - start);
    return token;
  }
  if (c == '.' && IsWord(At(1))) {
    ++position_;
    while (IsWord(At(0)) || (At(0) == ':' && At(1) == ':' && IsWord(At(2)))) position_ += At(0) == ':' ? 2 : 1;
    token.kind = Token::Kind::kDot;
    token.text = text_.substr(start + 1, position_ - start - 1);
    return token;
  }
  if (IsDigit(c)) return ScanNumber(token);
  if (c == '"') {
    do ++position_;
    while (At(0) != '"' && At(0) != '\n' && At(0) != '\0');
    if (At(0) != '"') return Fail("string without an end");
    token.kind = Token::Kind::kString;
    token.text = text_.substr(start + 1, position_ - start - 1);
    ++position_;
    return token;
  }
  token.kind = Token::Kind::kPunctuation;
  for (std::string_view op : kTwoCharacterOperators) {
    if (text_.substr(position_, 2) == op) {
      position_ += 2;
      token.text = text_.substr(start, 2);
      return token;
    }
  }
  if (kPunctuation.find(c) == std::string_view::npos || c == '\0') {
    return Fail(fmt::format("unexpected character 0x{:02x}", static_cast<unsigned char>(c)));
  }
  ++position_;
  token.text = text_.substr(start, 1);
  return token;
}

Token Lexer::ScanNumber(Token token) {
  const size_t start = position_;
  const char kind = At(1);
  if (At(0) == '0' && (kind == 'f' || kind == 'F')) return ScanHexFloat(token, 8);
  if (At(0) == '0' && (kind == 'd' || kind == 'D')) return ScanHexFloat(token, 16);
  int base = 10;
  if (At(0) == '0') {
    base = kind == 'x' || kind == 'X' ? 16 : kind == 'b' || kind == 'B' ? 2 : 8;
    if (base != 8) position_ += 2;
  }
  size_t end = position_;
  while (end < text_.size() && IsDigit(text_[end])) ++end;
  const char after = end < text_.size() ? text_[end] : '\0';
  if (base != 16 && base != 2 && (after == '.' || after == 'e' || after == 'E')) return ScanDecimal(token);

  const size_t first_digit = position_;
  uint64_t value = 0;
  for (int digit; (digit = DigitValue(At(0))) < base; ++position_) {
    if (value > (~uint64_t{0} - static_cast<uint64_t>(digit)) / static_cast<uint64_t>(base)) {
      return Fail("integer literal above 64 bits");
    }
    value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit);
  }
  const bool has_digits = position_ > first_digit;
  const bool suffix = At(0) == 'U';
  if (suffix) ++position_;
  if (!has_digits || IsWord(At(0))) return Fail("malformed integer literal");
  token.kind = Token::Kind::kInteger;
  token.text = text_.substr(start, position_ - start);
  token.value = value;
  token.is_unsigned = suffix || value > static_cast<uint64_t>(INT64_MAX);
  return token;
}

Token Lexer::ScanHexFloat(Token token, size_t digits) {
  const size_t start = position_;
  position_ += 2;
  uint64_t bits = 0;
  size_t count = 0;
  for (; count < digits && DigitValue(At(0)) < 16; ++count, ++position_) {
    bits = bits << 4 | static_cast<uint64_t>(DigitValue(At(0)));
  }
  if (count != digits || IsWord(At(0))) return Fail(fmt::format("a hexadecimal float needs {} digits", digits));
  token.kind = Token::Kind::kFloat;
  token.text = text_.substr(start, position_ - start);
  token.value = bits;
  token.is_double = digits == 16;
  return token;
}

Token Lexer::ScanDecimal(Token token) {
  const size_t start = position_;
  while (IsDigit(At(0))) ++position_;
  if (At(0) == '.') ++position_;
  while (IsDigit(At(0))) ++position_;
  if (At(0) == 'e' || At(0) == 'E') {
    ++position_;
    if (At(0) == '+' || At(0) == '-') ++position_;
    if (!IsDigit(At(0))) return Fail("malformed floating-point literal");
    while (IsDigit(At(0))) ++position_;
  }
  if (IsWord(At(0))) return Fail("malformed floating-point literal");
  token.kind = Token::Kind::kFloat;
  token.text = text_.substr(start, position_ - start);
  token.value = std::bit_cast<uint64_t>(std::strtod(std::string(token.text).c_str(), nullptr));
  token.is_double = true;
  return token;
}

}  // namespace qgpu::ptx
