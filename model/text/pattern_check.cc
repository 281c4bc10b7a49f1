#include "model/text/pattern_check.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace qgpu {
namespace {

constexpr size_t kMostBytes = 4096;
constexpr size_t kMostDepth = 32;

constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
                                            "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
                                            "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn"};

// Pairs that one character folds to (U+00DF to "ss"): Oniguruma matches it for the pair, PCRE2 does not.
constexpr std::string_view kFoldedPairs[] = {"ss", "st", "ff", "fi", "fl"};

bool IsAsciiPrintable(char c) { return c >= ' ' && c <= '~'; }

class Checker {
 public:
  explicit Checker(std::string_view pattern) : pattern_(pattern) {}

  absl::Status Check() {
    if (pattern_.empty()) return Refuse("an empty pattern");
    if (pattern_.size() > kMostBytes) return Refuse(fmt::format("a pattern of more than {} bytes", kMostBytes));
    while (!AtEnd()) QGPU_RETURN_IF_ERROR(One());
    return groups_.empty() ? absl::OkStatus() : Refuse("a group that does not end");
  }

 private:
  enum class Atom { kNone, kPlain, kGroup, kLook };
  struct Group {
    bool look = false, ignore_case = false;
  };

  bool AtEnd() const { return at_ >= pattern_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool Skip(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  bool IgnoresCase() const { return !groups_.empty() && groups_.back().ignore_case; }

  absl::Status Refuse(const std::string& what) const {
    return absl::InvalidArgumentError(
        fmt::format("the pattern has {} at offset {}, which is not supported", what, at_));
  }

  absl::Status One() {
    switch (Peek()) {
      case '(':
        return Open();
      case ')':
        return Close();
      case '[':
        if (IgnoresCase()) return Refuse("a class inside (?i:)");
        atom_ = Atom::kPlain;
        return Class();
      case '?':
      case '*':
      case '+':
      case '{':
        return Quantifier();
      case '|':
        ++at_;
        atom_ = Atom::kNone;
        literal_ = '\0';
        return absl::OkStatus();
      case '\\':
        if (IgnoresCase()) return Refuse("an escape inside (?i:)");
        atom_ = Atom::kPlain;
        return Escape();
      case '.':
      case '^':
      case '$':
      case ']':
      case '}':
        return Refuse(fmt::format("\"{}\"", Peek()));
      default:
        return Literal();
    }
  }

  absl::Status Literal() {
    if (!IsAsciiPrintable(Peek())) return Refuse("a character outside printable ASCII");
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(Peek())));
    if (IgnoresCase()) {
      for (const std::string_view pair : kFoldedPairs) {
        if (literal_ == pair[0] && lower == pair[1]) return Refuse(fmt::format("\"{}\" inside (?i:)", pair));
      }
    }
    literal_ = lower;
    atom_ = Atom::kPlain;
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Open() {
    Group group;
    if (Skip("(?i:")) {
      group.ignore_case = true;
    } else if (Skip("(?=") || Skip("(?!")) {
      group.look = true;
    } else if (!Skip("(?:")) {
      return Refuse("a group other than (?:..), (?i:..), (?=..) and (?!..)");
    } else {
      group.ignore_case = IgnoresCase();
    }
    if (group.look && IgnoresCase()) return Refuse("a look-ahead inside (?i:)");
    if (groups_.size() == kMostDepth) return Refuse(fmt::format("groups more than {} deep", kMostDepth));
    groups_.push_back(group);
    atom_ = Atom::kNone;
    literal_ = '\0';
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (groups_.empty()) return Refuse("a \")\" without group");
    atom_ = groups_.back().look ? Atom::kLook : Atom::kGroup;
    groups_.pop_back();
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Quantifier() {
    if (atom_ == Atom::kNone) return Refuse("a repetition of nothing");
    if (atom_ == Atom::kLook) return Refuse("a repeated look-ahead");
    const char sign = Peek();
    if (atom_ == Atom::kGroup && sign != '?') return Refuse("a repeated group");
    if (IgnoresCase()) return Refuse("a repetition inside (?i:)");
    if (sign == '{') {
      QGPU_RETURN_IF_ERROR(Braces());
    } else {
      ++at_;
      if (Peek() == '?' || Peek() == '+') ++at_;
    }
    atom_ = Atom::kNone;
    return absl::OkStatus();
  }

  // {n}, {n,} and {n,m}. What follows must not make it lazy or possessive: the engines disagree there.
  absl::Status Braces() {
    const size_t end = pattern_.find('}', at_);
    const std::string_view inner = end == std::string_view::npos ? "" : pattern_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = std::min(inner.find(','), inner.size());
    const auto number = [](std::string_view text) {
      return text.size() <= 3 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    const bool good =
        comma > 0 && number(inner.substr(0, comma)) && (comma == inner.size() || number(inner.substr(comma + 1)));
    if (!good) return Refuse("a \"{\" that is not {n}, {n,} or {n,m} with numbers below 1000");
    at_ = end + 1;
    if (Peek() == '?' || Peek() == '+' || Peek() == '*') return Refuse("a sign after {n,m}");
    return absl::OkStatus();
  }

  absl::Status Escape() {
    const char kind = Peek(1);
    if (kind == 'p' || kind == 'P') return Property();
    const bool known = std::string_view("rntfvsSdD").find(kind) != std::string_view::npos && kind != '\0';
    const bool punctuation = IsAsciiPrintable(kind) && std::ispunct(static_cast<unsigned char>(kind)) != 0;
    if (!known && !punctuation) return Refuse(fmt::format("the escape \"\\{}\"", IsAsciiPrintable(kind) ? kind : '?'));
    at_ += 2;
    literal_ = '\0';
    return absl::OkStatus();
  }

  absl::Status Property() {
    const size_t end = pattern_.find('}', at_);
    if (Peek(2) != '{' || end == std::string_view::npos) return Refuse("a property without {..}");
    const std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (std::find(std::begin(kCategories), std::end(kCategories), name) == std::end(kCategories)) {
      return Refuse(fmt::format("the property \"{}\", which is no general category,", name));
    }
    at_ = end + 1;
    return absl::OkStatus();
  }

  absl::Status Class() {
    ++at_;
    Skip("^");
    if (Peek() == ']') return Refuse("an empty class");
    while (Peek() != ']') {
      if (AtEnd()) return Refuse("a class that does not end");
      if (Peek() == '\\') {
        QGPU_RETURN_IF_ERROR(Escape());
        if (Peek() == '-' && Peek(1) != ']') return Refuse("a range that starts with an escape");
        continue;
      }
      if (Peek() == '[') return Refuse("a class in a class");
      if (Peek() == '&' && Peek(1) == '&') return Refuse("an intersection of classes");
      if (!IsAsciiPrintable(Peek())) return Refuse("a character outside printable ASCII");
      const char first = Peek();
      ++at_;
      if (Peek() != '-' || Peek(1) == ']') continue;
      const char last = Peek(1);
      if (!IsAsciiPrintable(last) || last == '[' || last == '\\' || last < first) return Refuse("a range like this");
      at_ += 2;
    }
    ++at_;
    return absl::OkStatus();
  }

  std::string_view pattern_;
  size_t at_ = 0;
  Atom atom_ = Atom::kNone;
  char literal_ = '\0';  // the one before, for folded pairs
  std::vector<Group> groups_;
};

}  // namespace

absl::Status CheckSplitPattern(std::string_view pattern) { return Checker(pattern).Check(); }

}  // namespace qgpu
