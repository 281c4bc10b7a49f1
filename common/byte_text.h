// Bytes as text: hexadecimal and base64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace qgpu {

using Bytes = std::vector<uint8_t>;

// "00ff12", two lower-case digits a byte.
std::string ToHex(const Bytes& bytes);

// The bytes of "00ff12" or "0x00FF12"; white space between digits is skipped. kInvalidArgument for any other character
// and for an odd number of digits.
absl::StatusOr<Bytes> FromHex(std::string_view text);

// The bytes of base64 (RFC 4648, with padding); white space is skipped. kInvalidArgument saying what is wrong.
absl::StatusOr<Bytes> FromBase64(std::string_view text);

// Bytes as 32-bit words, little-endian; the last one is filled with zeros.
std::vector<uint32_t> ToWords(const Bytes& bytes);

// The first `count` bytes of `words`, little-endian; fewer where there are fewer.
Bytes FromWords(const std::vector<uint32_t>& words, size_t count);

}  // namespace qgpu
