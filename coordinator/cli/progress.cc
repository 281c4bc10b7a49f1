#include "coordinator/cli/progress.h"

#include <cstdio>

#include "fmt/format.h"

namespace qgpu {
namespace {

constexpr int64_t kLineEveryMs = 3000;  // where stderr is no terminal
constexpr int64_t kLiveEveryMs = 100;

std::string Seconds(int64_t ms) { return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000); }

}  // namespace

std::string FormatProgress(const Progress& progress) {
  std::string text = fmt::format("{}/{} items, {} tokens, ", progress.done, progress.total, progress.tokens);
  if (progress.positions > 0) text += fmt::format("{} positions, ", progress.positions);
  text += fmt::format("{} not passed, {}", progress.not_passed, Seconds(progress.elapsed_ms));
  const int done_now = progress.done - progress.done_before;
  if (done_now > 0 && progress.done < progress.total) {
    const int64_t left_ms = progress.elapsed_ms * (progress.total - progress.done) / done_now;
    text += fmt::format(", about {} left", Seconds(left_ms));
  }
  return text;
}

void ProgressPrinter::ClearLine() {
  if (has_line_) fmt::print(stderr, "\r\x1b[K");
  has_line_ = false;
}

void ProgressPrinter::Show(const Progress& progress) {
  last_shown_ms_ = progress.elapsed_ms;
  if (is_terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", FormatProgress(progress));
    has_line_ = true;
  } else {
    fmt::print(stderr, "{}\n", FormatProgress(progress));
  }
  std::fflush(stderr);
}

void ProgressPrinter::OnStart(int64_t run_id, const Progress& progress) {
  fmt::print(stderr, "run {}: {} items{}\n", run_id, progress.total,
             progress.done == 0 ? "" : fmt::format(", {} of them are done", progress.done));
}

void ProgressPrinter::OnItemDone(const CaseName& name, const std::string& worker, const AttemptRow& attempt,
                                 const Progress&) {
  if (attempt.status == CaseStatus::kPass) return;
  ClearLine();
  fmt::print(stderr, "{} {} on {}: {}\n", CaseStatusName(attempt.status), name.Id(), worker, attempt.message);
}

void ProgressPrinter::OnTick(const Progress& progress) {
  if (progress.elapsed_ms - last_shown_ms_ >= (is_terminal_ ? kLiveEveryMs : kLineEveryMs)) Show(progress);
}

void ProgressPrinter::Finish(const Progress& progress) {
  ClearLine();
  fmt::print(stderr, "{}\n", FormatProgress(progress));
}

}  // namespace qgpu
