#include "model/generate/stop_text.h"

#include <algorithm>
#include <utility>

namespace qgpu {

std::string StopText::Push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  // Of those that are complete first the longest: what ends the text does not depend on how it is cut.
  size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > end) continue;
    begin = at + stop.size() < end ? at : std::min(begin, at);
    end = at + stop.size();
  }
  if (begin != std::string::npos) {
    found_ = true;
    held_.resize(begin);
    return std::exchange(held_, "");
  }
  size_t kept = 0;  // bytes at the end that a stop text may begin with
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > kept; --size) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) kept = size;
    }
  }
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopText::Finish() { return std::exchange(held_, ""); }

}  // namespace qgpu
