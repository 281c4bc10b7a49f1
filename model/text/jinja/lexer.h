// A chat template cut into text and the tokens of its tags, with Jinja's rules for white space: trim_blocks and
// lstrip_blocks are on, as Hugging Face sets them, and one newline at the end of the template is dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu::jinja {

struct Token {
  enum class Kind {
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // the text, the name, the operator; a string without quotes and escapes; a number's digits
  int line = 1;
};

// The last token is kEnd. kInvalidArgument with the line: a tag or string without end, an unknown character.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view valid_template);

}  // namespace qgpu::jinja
