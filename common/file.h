// Whole files in and out.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace qgpu {

// The file's bytes. kNotFound, kPermissionDenied, kInvalidArgument (a directory, larger than max_bytes, a path through
// a file) or kUnavailable, each naming the path.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = size_t{1} << 31);

// Writes a new file beside `path`, syncs it and renames it over `path`: a reader sees the old or the new content,
// never a part. On error nothing is left behind.
absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace qgpu
