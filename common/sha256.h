// SHA-256 (FIPS 180-4), from OpenSSL.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qgpu {

// Lower-case hexadecimal digest, 64 characters.
std::string Sha256Hex(std::string_view bytes);
std::string Sha256Hex(const void* data, size_t size);

}  // namespace qgpu
