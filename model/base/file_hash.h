// SHA-256 of a file that need not fit in memory.
#pragma once

#include <string>

#include "common/status.h"

namespace qgpu {

// Lower-case hexadecimal digest. kNotFound, kInvalidArgument (not a regular file) or kUnavailable, naming the path.
absl::StatusOr<std::string> FileSha256(const std::string& path);

}  // namespace qgpu
