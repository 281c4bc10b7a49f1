// Token ids as people and programs write them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu {

// Whole numbers with blanks, line ends or commas between, as they are or as JSON: [1, 2], or an object with such a list
// as "ids" (what `qgpu tokenize` prints). May be none. kInvalidArgument names the first that is no number.
absl::StatusOr<std::vector<int64_t>> ParseTokenIds(std::string_view text);

}  // namespace qgpu
