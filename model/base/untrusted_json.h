// JSON from files that nobody vouches for: nesting is limited (so that no tree is too deep to walk or to free), a key
// given twice is an error, and what is wrong is said without quoting megabytes.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "nlohmann/json.hpp"

namespace qgpu {

inline constexpr int kMaxJsonDepth = 32;

// kInvalidArgument: not JSON (with the byte where it stops being so), nested deeper than kMaxJsonDepth, a number that
// no double holds, or a key twice in one object. The message has no path in front.
absl::StatusOr<nlohmann::json> ParseUntrustedJson(std::string_view text);

// The text of such a file. As ReadFile of common/file.h, and kInvalidArgument for what is no regular file: a pipe would
// never end.
absl::StatusOr<std::string> ReadUntrustedText(const std::string& path, size_t max_bytes);

// A name from such a file as it may stand in a message: at most 120 characters, other than printable ASCII as '?'.
std::string PrintableName(std::string_view name);

}  // namespace qgpu
