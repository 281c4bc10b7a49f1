#include "tests/fuzz/mutate_ptx.h"

#include <cctype>
#include <vector>

#include "common/prng.h"

namespace qgpu {
namespace {

// What PTX is made of, to be put where it may not belong.
constexpr const char* kPieces[] = {
    // numbers
    "0", "1", "-1", "31", "32", "63", "64", "255", "65536", "0x7fffffff", "0x80000000", "4294967295", "4294967296",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615", "99999999999999999999", "0f3F800000", "0x",
    "1.5", "0b101", "07",
    // types and modifiers
    ".u8", ".s8", ".b8", ".u16", ".s16", ".b16", ".u32", ".s32", ".b32", ".u64", ".s64", ".b64", ".pred", ".f32",
    ".f64", ".f16x2", ".wide", ".hi", ".lo", ".sat", ".cc", ".v2", ".v4", ".global", ".shared", ".local", ".const",
    ".param", ".volatile", ".relaxed.gpu", ".nc", ".sync", ".uni", ".approx", ".rn", ".wrap", ".clamp", ".b4e",
    ".aligned", ".to", ".ptr", ".align 16", ".up", ".idx", ".ballot", ".eq", ".lt", ".and",
    // opcodes
    "add", "mul", "mad", "div", "rem", "shl", "shf", "bfe", "bfi", "prmt", "lop3", "dp4a", "setp", "selp", "mov", "cvt",
    "cvta", "ld", "st", "atom", "red", "bra", "brx.idx", "call", "ret", "exit", "trap", "bar.sync 0;", "shfl", "vote",
    "match", "activemask", "addc", "subc", "madc", "popc", "fns", "szext", "bmsk", "sad", "ld.param.u32", "sin.approx",
    // punctuation and directives
    ";", ",", "{", "}", "[", "]", "(", ")", "@", "!", "|", ":", "+", "-", "%", "_", "<", ">", "=", "//", "/*", "*/",
    "\"", "\\", "\n", ".reg", ".entry", ".func", ".visible", ".extern", ".loc 1 2 3", ".file 1 \"x\"", ".maxntid 4",
    ".branchtargets", ".pragma \"nounroll\";", ".version 9.9", ".target sm_99", ".address_size 32", ".section .debug",
    // names
    "%r1", "%rd1", "%p1", "%tid.x", "%tid.w", "%ntid", "%laneid", "%clock", "%envreg0", "WARP_SZ", "%r999999", "$L",
    "%nosuch", "%r<2000000000>", "LBB0_1"};

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' || c == '$' || c == '.';
}

class Mutator {
 public:
  Mutator(const std::string& text, const std::string& other, uint64_t seed)
      : text_(text), other_(other), random_(seed) {}

  std::string Run() {
    // Half of the texts stay close to what parses.
    const uint32_t most = random_.Below(2) == 0 ? 2 : 8;
    for (uint32_t edits = 1 + random_.Below(most); edits > 0; --edits) Edit();
    return text_;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_.Below(static_cast<uint32_t>(bound)); }
  const char* Piece() { return kPieces[Below(std::size(kPieces))]; }

  // The word or the single character at a random place.
  std::pair<size_t, size_t> Word(const std::string& text) {
    size_t first = Below(text.size()), end = first + (text.empty() ? 0 : 1);
    if (text.empty() || !IsWord(text[first])) return {first, end};
    while (first > 0 && IsWord(text[first - 1])) --first;
    while (end < text.size() && IsWord(text[end])) ++end;
    return {first, end};
  }
  // From the start of a line to the end of the same or a later one.
  std::pair<size_t, size_t> Lines(const std::string& text, size_t most) {
    size_t first = Below(text.size());
    while (first > 0 && text[first - 1] != '\n') --first;
    size_t end = first;
    for (size_t lines = 1 + Below(most); lines > 0 && end < text.size(); --lines) {
      const size_t newline = text.find('\n', end);
      end = newline == std::string::npos ? text.size() : newline + 1;
    }
    return {first, end};
  }
  // One of the parts of "add.s32" and its like.
  std::pair<size_t, size_t> WordPart() {
    const auto [first, end] = Word(text_);
    const std::string word = text_.substr(first, end - first);
    const size_t dot = word.find('.', Below(word.size()));
    if (dot == std::string::npos) return {first, end};
    const size_t next = word.find('.', dot + 1);
    return {first + dot, next == std::string::npos ? end : first + next};
  }
  void Put(std::pair<size_t, size_t> place, const std::string& piece) {
    text_.replace(place.first, place.second - place.first, piece);
  }

  void Edit() {
    if (text_.size() > 60000) text_.resize(60000);
    switch (random_.Below(12)) {
      case 0:
        return Put(Word(text_), "");
      case 1:
      case 2:
        return Put(Word(text_), Piece());
      case 3:
      case 4:
        return Put(WordPart(), Piece());
      case 5: {
        const size_t place = Word(text_).first;
        return Put({place, place}, Piece());
      }
      case 6: {  // a word of the text somewhere else
        const auto [first, end] = Word(text_);
        return Put(Word(text_), text_.substr(first, end - first));
      }
      case 7:
        return Put(Lines(text_, 3), "");
      case 8: {  // lines twice, or of the other text
        const std::string& from = random_.Below(2) == 0 ? text_ : other_;
        const auto [first, end] = Lines(from, 4);
        const size_t place = Lines(text_, 1).first;
        return Put({place, place}, from.substr(first, std::min<size_t>(end - first, 120)));
      }
      case 9: {
        if (text_.empty()) return;
        char& byte = text_[Below(text_.size())];
        byte = static_cast<char>(random_.Below(2) == 0 ? byte ^ (1 << random_.Below(8)) : random_.Below(256));
        return;
      }
      case 10: {  // a nest or a run of one piece
        const size_t place = Below(text_.size());
        const std::string piece = Piece();
        std::string run;
        for (size_t count = Below(100); count > 0 && run.size() + piece.size() < 120; --count) run += piece;
        return Put({place, place}, run);
      }
      default:
        if (random_.Below(4) == 0) text_.resize(Below(text_.size()));
    }
  }

  std::string text_;
  const std::string& other_;
  SplitMix64 random_;
};

}  // namespace

std::string MutatePtx(const std::string& text, const std::string& other, uint64_t seed) {
  return Mutator(text, other, seed).Run();
}

}  // namespace qgpu
