#include "tests/differential/shrink.h"

#include <chrono>
#include <optional>

#include "fmt/format.h"

namespace qgpu {
namespace {

using Lines = std::vector<std::string>;

bool EndsWith(const std::string& text, const char* end) { return text.ends_with(end); }
bool IsPinned(const std::string& line) { return EndsWith(line, "//!"); }
bool OpensBlock(const std::string& line) { return EndsWith(line, "{"); }
bool ClosesBlock(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first != std::string::npos && line[first] == '}';
}

Lines Split(const std::string& text) {
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string Join(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Lines Without(const Lines& lines, size_t first, size_t last) {
  Lines rest(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(first));
  rest.insert(rest.end(), lines.begin() + static_cast<std::ptrdiff_t>(last) + 1, lines.end());
  return rest;
}

// The lines of the block that line `open` opens: itself, "} else {" and its like, and the closing one.
std::vector<size_t> BlockLines(const Lines& lines, size_t open) {
  std::vector<size_t> marks = {open};
  int depth = 1;
  for (size_t i = open + 1; i < lines.size(); ++i) {
    if (ClosesBlock(lines[i])) {
      if (depth == 1) marks.push_back(i);
      --depth;
    }
    if (OpensBlock(lines[i])) ++depth;
    if (depth == 0) return marks;
  }
  return {};
}

// Texts that are `line` with one thing in it made smaller, the boldest first.
class LineEdits {
 public:
  explicit LineEdits(const std::string& line) : line_(line) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '(') Group(i);
    }
    for (size_t i = 0; i < line.size(); ++i) {
      if (std::isdigit(static_cast<unsigned char>(line[i])) && (i == 0 || !IsWord(line[i - 1]))) i = Number(i);
    }
  }
  std::vector<std::string> texts;

 private:
  static bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  void Replace(size_t first, size_t end, const std::string& by) {
    if (line_.compare(first, end - first, by) != 0) texts.push_back(line_.substr(0, first) + by + line_.substr(end));
  }

  // The end of the group that `open` opens, or nothing.
  std::optional<size_t> End(size_t open) const {
    int depth = 0;
    for (size_t i = open; i < line_.size(); ++i) {
      depth += line_[i] == '(' ? 1 : line_[i] == ')' ? -1 : 0;
      if (depth == 0) return i + 1;
    }
    return std::nullopt;
  }

  // "(p op q)" or "name(p, q)": 0, 1, and each of its operands.
  void Group(size_t open) {
    const std::optional<size_t> end = End(open);
    if (!end.has_value()) return;
    size_t first = open;
    while (first > 0 && IsWord(line_[first - 1])) --first;
    Replace(first, *end, "0");
    Replace(first, *end, "1");
    int depth = 0;
    size_t start = open + 1;
    for (size_t i = open; i < *end; ++i) {
      depth += line_[i] == '(' || line_[i] == '[' ? 1 : line_[i] == ')' || line_[i] == ']' ? -1 : 0;
      const bool at_end = i + 1 == *end;
      const bool splits = depth == 1 && (line_[i] == ',' || (line_[i] == ' ' && i > start));
      if (!at_end && !splits) continue;
      const std::string operand = line_.substr(start, i - start);
      if (operand.size() > 2 || (!operand.empty() && IsWord(operand.back()))) Replace(first, *end, "(" + operand + ")");
      start = i + 1;
    }
  }

  size_t Number(size_t first) {
    size_t end = first;
    while (end < line_.size() && IsWord(line_[end])) ++end;
    const uint64_t value = std::strtoull(line_.substr(first, end - first).c_str(), nullptr, 0);
    for (const uint64_t smaller : {uint64_t{0}, uint64_t{1}, value / 2}) {
      if (smaller < value) Replace(first, end, std::to_string(smaller));
    }
    return end;
  }

  const std::string line_;
};

class Shrinker {
 public:
  Shrinker(const LaunchSpec& spec, const std::string& prelude, const std::string& kernel_text,
           const std::function<bool(const LaunchSpec&)>& disagrees, const ShrinkLimits& limits)
      : prelude_(prelude), disagrees_(disagrees), limits_(limits), lines_(Split(kernel_text)) {
    best_.spec = WithLines(spec, lines_);
  }

  Shrunk Run() {
    bool progress = true;
    while (progress && !Exhausted()) {
      progress = Statements();
      progress |= Launch();
      progress |= Expressions();
    }
    best_.is_smallest = !Exhausted();
    return std::move(best_);
  }

 private:
  bool Exhausted() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return best_.attempts >= limits_.attempts || spent.count() > limits_.seconds;
  }
  LaunchSpec WithLines(LaunchSpec spec, const Lines& lines) const {
    spec.source.text = prelude_ + Join(lines);
    return spec;
  }
  bool Try(const LaunchSpec& spec) {
    if (Exhausted()) return false;
    ++best_.attempts;
    if (!disagrees_(spec)) return false;
    best_.spec = spec;
    return true;
  }
  bool TryLines(Lines lines) {
    if (!Try(WithLines(best_.spec, lines))) return false;
    lines_ = std::move(lines);
    return true;
  }

  // Takes lines and blocks away, or a block's braces. The first line is the kernel's.
  bool Statements() {
    bool progress = false;
    for (size_t i = 1; i + 1 < lines_.size();) {
      const bool gone = ClosesBlock(lines_[i]) ? false : OpensBlock(lines_[i]) ? Block(i) : Single(i);
      progress |= gone;
      if (!gone) ++i;
    }
    return progress;
  }
  bool Single(size_t i) { return !IsPinned(lines_[i]) && TryLines(Without(lines_, i, i)); }
  bool Block(size_t i) {
    const std::vector<size_t> marks = BlockLines(lines_, i);
    if (marks.size() < 2) return false;
    if (TryLines(Without(lines_, marks.front(), marks.back()))) return true;
    // Only one of its parts, without the braces.
    for (size_t part = 0; part + 1 < marks.size(); ++part) {
      Lines lines = Without(lines_, marks[part + 1], marks.back());
      if (TryLines(Without(lines, marks.front(), marks[part]))) return true;
    }
    return marks.size() > 2 && TryLines(Without(lines_, marks[1], marks.back() - 1));  // no else
  }

  bool Expressions() {
    bool progress = false;
    for (size_t i = 1; i + 1 < lines_.size(); ++i) {
      if (IsPinned(lines_[i])) continue;
      for (bool smaller = true; smaller && !Exhausted();) {
        smaller = false;
        for (const std::string& text : LineEdits(lines_[i]).texts) {
          Lines lines = lines_;
          lines[i] = text;
          if (!TryLines(std::move(lines))) continue;
          smaller = progress = true;
          break;
        }
      }
    }
    return progress;
  }

  // `field` of the best launch made as small as `least`, or half, or one less.
  template <typename T>
  bool Number(const std::function<T&(LaunchSpec&)>& field, T least) {
    bool progress = false;
    for (bool smaller = true; smaller && !Exhausted();) {
      smaller = false;
      const T now = field(best_.spec);
      for (const T next : {least, static_cast<T>(now / 2), static_cast<T>(now - 1)}) {
        if (next >= now || next < least) continue;
        LaunchSpec spec = best_.spec;
        field(spec) = next;
        if (!Try(spec)) continue;
        smaller = progress = true;
        break;
      }
    }
    return progress;
  }

  bool Launch() {
    bool progress = Number<uint32_t>([](LaunchSpec& spec) -> uint32_t& { return spec.grid.x; }, 1);
    progress |= Number<uint32_t>([](LaunchSpec& spec) -> uint32_t& { return spec.block.x; }, 1);
    for (size_t a = 0; a < best_.spec.arguments.size(); ++a) {
      progress |= Number<uint64_t>([a](LaunchSpec& spec) -> uint64_t& { return spec.arguments[a].scalar; }, 0);
      const size_t words = best_.spec.arguments[a].words.size();
      LaunchSpec zeros = best_.spec;
      zeros.arguments[a].words.assign(words, 0);
      const bool has_content = zeros.arguments[a].words != best_.spec.arguments[a].words;
      if (!has_content) continue;
      if (Try(zeros)) {
        progress = true;
        continue;
      }
      for (size_t w = 0; w < words; ++w) {
        progress |= Number<uint32_t>([a, w](LaunchSpec& spec) -> uint32_t& { return spec.arguments[a].words[w]; }, 0);
      }
    }
    return progress;
  }

  const std::string& prelude_;
  const std::function<bool(const LaunchSpec&)>& disagrees_;
  const ShrinkLimits limits_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Lines lines_;
  Shrunk best_;
};

}  // namespace

Shrunk Shrink(const LaunchSpec& spec, const std::string& prelude, const std::string& kernel_text,
              const std::function<bool(const LaunchSpec&)>& disagrees, const ShrinkLimits& limits) {
  return Shrinker(spec, prelude, kernel_text, disagrees, limits).Run();
}

std::string FormatLaunch(const LaunchSpec& spec) { return spec.source.text + LaunchSpecToJson(spec) + "\n"; }

}  // namespace qgpu
