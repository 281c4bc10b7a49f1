// Text as it comes, token by token: what is written so far of a character is held back until the rest is there.
#pragma once

#include <memory>
#include <string>

#include "model/text/tokenizer.h"

namespace qgpu {

// All that Push and Finish return, joined, is what Tokenizer::Decode makes of all ids at once. Not thread-safe.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = false)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text that this id completes: valid UTF-8, may be empty. Bytes that can become no character come as U+FFFD.
  std::string Push(int32_t id);
  // What is held back, as U+FFFD. Afterwards as new.
  std::string Finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::string held_;  // the start of a character: at most 3 bytes
};

}  // namespace qgpu
