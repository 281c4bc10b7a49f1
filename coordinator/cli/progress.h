// What a person sees on stderr while a run goes on: on a terminal one live line, otherwise a line every few seconds;
// whatever does not pass, at once.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/run/run_suite.h"

namespace qgpu {

// "12/36 items, 4321 tokens, 640 positions, 0 not passed, 3.0 s, about 6.0 s left"
std::string FormatProgress(const Progress& progress);

class ProgressPrinter final : public RunListener {
 public:
  explicit ProgressPrinter(bool is_terminal) : is_terminal_(is_terminal) {}

  void OnStart(int64_t run_id, const Progress& progress) override;
  void OnItemDone(const CaseName& name, const std::string& worker, const AttemptRow& attempt,
                  const Progress& progress) override;
  void OnTick(const Progress& progress) override;
  // Ends the live line.
  void Finish(const Progress& progress);

 private:
  void ClearLine();
  void Show(const Progress& progress);

  bool is_terminal_;
  int64_t last_shown_ms_ = 0;
  bool has_line_ = false;
};

}  // namespace qgpu
