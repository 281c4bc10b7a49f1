#include "model/text/jinja/lexer.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "model/text/jinja/python_text.h"
#include "model/text/utf8.h"

namespace qgpu::jinja {
namespace {

// Longest first.
constexpr std::string_view kOperators[] = {"==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
                                           "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsName(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) QGPU_RETURN_IF_ERROR(TextAndTag());
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view text) const { return Rest().substr(0, text.size()) == text; }

  void Advance(size_t size) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + size), '\n'));
    at_ += size;
  }
  void Add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(fmt::format("line {}: {}", line_, what));
  }

  // Text up to the next tag, what the tag strips of it taken off, and the tag.
  absl::Status TextAndTag() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        AddText(Rest());
        Advance(source_.size() - at_);
        return absl::OkStatus();
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    AddText(StrippedBefore(std::string_view(source_).substr(at_, tag - at_), kind, sign));
    Advance(tag - at_);
    size_t head = 2;
    if (sign == '-' || sign == '+') head = 3;
    if (kind == '#') return Comment(head);
    if (kind == '%' && IsRaw(head)) return Raw(head);
    Add(kind == '{' ? Token::Kind::kPrintBegin : Token::Kind::kBlockBegin, "");
    Advance(head);
    return Inside(kind == '{');
  }

  void AddText(std::string_view text) {
    if (!text.empty()) Add(Token::Kind::kText, std::string(text));
  }

  // lstrip_blocks: white space between the start of a line and a block or comment goes.
  std::string_view StrippedBefore(std::string_view text, char kind, char sign) const {
    if (sign == '-') return StripRight(text);
    if (sign == '+' || kind == '{') return text;
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    const bool starts_line = line_start > 0 || LineStarts();
    return starts_line && StripRight(text.substr(line_start)).empty() ? text.substr(0, line_start) : text;
  }
  bool LineStarts() const { return at_ == 0 || source_[at_ - 1] == '\n'; }

  void SkipSpace() {
    while (at_ < source_.size()) {
      size_t next = at_;
      if (!IsPythonSpace(NextCodePoint(source_, next))) break;
      Advance(next - at_);
    }
  }

  // Behind a tag's end: "-" strips all white space, a block's end also its newline (trim_blocks) unless there is a "+".
  void AfterEnd(char sign, bool block) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && block && StartsWith("\n")) {
      Advance(1);
    }
  }

  absl::Status Comment(size_t head) {
    const size_t end = source_.find("#}", at_ + head);
    if (end == std::string::npos) return Error("a comment that does not end");
    const char sign = end > at_ + head ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    AfterEnd(sign == '-' || sign == '+' ? sign : '\0', true);
    return absl::OkStatus();
  }

  // The word of a block tag whose head is `head` bytes long, and where it ends.
  std::optional<size_t> EndOfBareTag(size_t start, std::string_view word) const {
    size_t at = start;
    while (at < source_.size() && std::isspace(static_cast<unsigned char>(source_[at]))) ++at;
    if (source_.compare(at, word.size(), word) != 0) return std::nullopt;
    at += word.size();
    while (at < source_.size() && std::isspace(static_cast<unsigned char>(source_[at]))) ++at;
    return at;
  }
  bool IsRaw(size_t head) const {
    const auto end = EndOfBareTag(at_ + head, "raw");
    return end.has_value() && (source_.compare(*end, 2, "%}") == 0 || source_.compare(*end, 3, "-%}") == 0);
  }

  absl::Status Raw(size_t head) {
    const size_t end = *EndOfBareTag(at_ + head, "raw");
    const bool strips = source_[end] == '-';
    Advance(end + (strips ? 3 : 2) - at_);
    if (strips) SkipSpace();
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const auto close = EndOfBareTag(tag + (sign == '-' || sign == '+' ? 3 : 2), "endraw");
      if (!close.has_value()) continue;
      const char end_sign = source_[*close] == '-' || source_[*close] == '+' ? source_[*close] : '\0';
      const size_t tail = *close + (end_sign != '\0' ? 1 : 0);
      if (source_.compare(tail, 2, "%}") != 0) continue;
      AddText(StrippedBefore(std::string_view(source_).substr(at_, tag - at_), '%', sign));
      Advance(tail + 2 - at_);
      AfterEnd(end_sign, true);
      return absl::OkStatus();
    }
    return Error("a raw block that does not end");
  }

  absl::Status Inside(bool print) {
    const std::string_view close = print ? "}}" : "%}";
    std::string open;  // brackets that are not closed yet
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) return Error("a tag that does not end");
      const char c = source_[at_];
      if (open.empty()) {
        const bool signed_end = (c == '-' || (c == '+' && !print)) && Rest().substr(1, 2) == close;
        if (signed_end || StartsWith(close)) {
          Add(print ? Token::Kind::kPrintEnd : Token::Kind::kBlockEnd, "");
          Advance(signed_end ? 3 : 2);
          AfterEnd(signed_end ? c : '\0', !print);
          return absl::OkStatus();
        }
      }
      if (IsNameStart(c)) {
        size_t end = at_;
        while (end < source_.size() && IsName(source_[end])) ++end;
        Add(Token::Kind::kName, source_.substr(at_, end - at_));
        Advance(end - at_);
      } else if (IsDigit(c)) {
        QGPU_RETURN_IF_ERROR(Number());
      } else if (c == '"' || c == '\'') {
        QGPU_RETURN_IF_ERROR(String(c));
      } else {
        QGPU_RETURN_IF_ERROR(Operator(open));
      }
    }
  }

  absl::Status Operator(std::string& open) {
    for (const std::string_view candidate : kOperators) {
      if (!StartsWith(candidate)) continue;
      const char c = candidate[0];
      if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) return Error(fmt::format("an unexpected \"{}\"", c));
        open.pop_back();
      }
      Add(Token::Kind::kOperator, std::string(candidate));
      Advance(candidate.size());
      return absl::OkStatus();
    }
    return Error(fmt::format("an unexpected character \"{}\"", Rest().substr(0, Utf8Length(source_[at_]))));
  }

  absl::Status Number() {
    size_t end = at_;
    bool is_float = false;
    const auto digits = [&] {
      while (end < source_.size() &&
             (IsDigit(source_[end]) || (source_[end] == '_' && end + 1 < source_.size() && IsDigit(source_[end + 1]))))
        ++end;
    };
    digits();
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        is_float = true;
        end = exponent;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    if (end < source_.size() && IsName(source_[end]))
      return Error(fmt::format("the number \"{}{}...\" is not supported", text, source_[end]));
    if (!is_float && text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != std::string::npos) {
      return Error(fmt::format("the number \"{}\" is not supported", text));
    }
    Add(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, text);
    Advance(end - at_);
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    std::string text;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] != '\\') {
        text.push_back(source_[end++]);
        continue;
      }
      QGPU_RETURN_IF_ERROR(Escape(end, text));
    }
    if (end >= source_.size()) return Error("a string that does not end");
    Add(Token::Kind::kString, text);
    Advance(end + 1 - at_);
    return absl::OkStatus();
  }

  // Python's escapes; an unknown one stays as it is.
  absl::Status Escape(size_t& at, std::string& text) {
    constexpr std::string_view kNames = "abfnrtv\\'\"\n", kValues = "\a\b\f\n\r\t\v\\'\"";
    const char name = at + 1 < source_.size() ? source_[at + 1] : '\0';
    if (name == '\0') return Error("a string that does not end");
    at += 2;
    if (const size_t index = kNames.find(name); index != std::string_view::npos) {
      if (name != '\n') text.push_back(kValues[index]);
      return absl::OkStatus();
    }
    if (name == 'N') return Error("the escape \"\\N\" is not supported");
    const size_t most = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : name >= '0' && name <= '7' ? 3 : 0;
    if (most == 0) {
      text.push_back('\\');
      text.push_back(name);
      return absl::OkStatus();
    }
    const bool octal = most == 3;
    if (octal) --at;
    uint32_t value = 0;
    size_t count = 0;
    for (; count < most && at < source_.size(); ++count, ++at) {
      const char c = source_[at];
      const int digit = IsDigit(c)                                          ? c - '0'
                        : std::isxdigit(static_cast<unsigned char>(c)) != 0 ? std::tolower(c) - 'a' + 10
                                                                            : 99;
      if (digit >= (octal ? 8 : 16)) break;
      value = value * (octal ? 8 : 16) + static_cast<uint32_t>(digit);
    }
    if (!octal && count < most) return Error(fmt::format("the escape \"\\{}\" is cut off", name));
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return Error("an escape that is no character");
    AppendUtf8(value, text);
    return absl::OkStatus();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// Every kind of newline as "\n", and none at the very end.
std::string NormalizedNewlines(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      result.push_back('\n');
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      result.push_back(text[i]);
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view valid_template) {
  return Lexer(NormalizedNewlines(valid_template)).Run();
}

}  // namespace qgpu::jinja
