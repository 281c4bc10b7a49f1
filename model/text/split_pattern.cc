#include "model/text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "model/text/pattern_check.h"
#include "model/text/unicode.h"

namespace qgpu {
namespace {

constexpr size_t kJitStackBytes = size_t{1} << 20;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

std::string ErrorText(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Enough for a pattern of CheckSplitPattern's on any text of this length, where it does not backtrack over and over.
uint32_t MatchLimit(size_t bytes) { return static_cast<uint32_t>(std::min<size_t>(100'000 + 16 * bytes, UINT32_MAX)); }

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  bool jit = false;
};

void SplitPattern::Deleter::operator()(Compiled* compiled) const {
  pcre2_code_free(compiled->code);
  delete compiled;
}

absl::StatusOr<SplitPattern> SplitPattern::Compile(const std::string& pattern) {
  QGPU_RETURN_IF_ERROR(CheckSplitPattern(pattern));
  SplitPattern result;
  result.compiled_.reset(new Compiled);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the pattern does not compile: {} at offset {}", ErrorText(error), offset));
  }
  result.compiled_->code = code;
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0)
    return absl::InvalidArgumentError("the pattern can match the empty string, which is not supported");
  result.compiled_->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  return result;
}

absl::Status SplitPattern::Split(std::string_view valid, const std::function<void(std::string_view)>& piece) const {
  std::string replaced;
  const std::string_view subject = ReplaceByStandIns(valid, replaced) ? std::string_view(replaced) : valid;
  const MatchData match(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), MatchLimit(valid.size()));
  JitStack stack;
  if (compiled_->jit && valid.size() > 1024) {
    stack.reset(pcre2_jit_stack_create(size_t{1} << 15, kJitStackBytes, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  const auto* const bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(match.get());
  size_t at = 0;
  while (at < valid.size()) {
    const int result =
        pcre2_match(compiled_->code, bytes, subject.size(), at, PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::InvalidArgumentError(fmt::format(
          "the tokenizer's pattern fails on this text at offset {}: {}; shorten it", at, ErrorText(result)));
    }
    if (found[0] > at) piece(valid.substr(at, found[0] - at));
    piece(valid.substr(found[0], found[1] - found[0]));
    at = found[1];
  }
  if (at < valid.size()) piece(valid.substr(at));
  return absl::OkStatus();
}

}  // namespace qgpu
