// Where a streamed text has to end: where the first of several stop texts is complete, of which nothing is let through.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qgpu {

class StopText {
 public:
  // Valid UTF-8, none empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Takes more of the text, whole characters, and returns what may be shown now: all but an end that could begin a stop
  // text. Once one is complete, found() holds and nothing more comes.
  std::string Push(std::string_view text);
  // The text is over: what was held back.
  std::string Finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace qgpu
