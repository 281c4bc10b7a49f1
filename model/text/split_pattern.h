// Text cut into the pieces that byte-level BPE works on: what a pattern matches, and what lies between.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

namespace qgpu {

class SplitPattern {
 public:
  // kInvalidArgument: the pattern is not one of CheckSplitPattern's, does not compile, or matches the empty string.
  static absl::StatusOr<SplitPattern> Compile(const std::string& pattern);

  SplitPattern(SplitPattern&&) = default;
  SplitPattern& operator=(SplitPattern&&) = default;

  // Gives every piece of `valid` UTF-8 in order (the "isolated" behaviour). Thread-safe. kInvalidArgument: the
  // pattern needs too many steps on this text.
  absl::Status Split(std::string_view valid, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Compiled;
  struct Deleter {
    void operator()(Compiled* compiled) const;
  };
  SplitPattern() = default;
  std::unique_ptr<Compiled, Deleter> compiled_;
};

}  // namespace qgpu
