// Which regular expressions a tokenizer may split by: those that PCRE2 and the Oniguruma of the `tokenizers` library
// read alike, and that cannot take exponential time.
#pragma once

#include <string_view>

#include "common/status.h"

namespace qgpu {

// Allowed: ASCII literals; \r \n \t \f \v, escaped punctuation; \s \S \d \D; \p{..} and \P{..} of general categories;
// classes of these with ranges of literals; (?:..), (?i:..) of literals, (?=..), (?!..); | ? * + {n,m} and their lazy
// and possessive forms where both engines have them; a repeated group only with ?. kInvalidArgument names what is
// something else and where.
absl::Status CheckSplitPattern(std::string_view pattern);

}  // namespace qgpu
