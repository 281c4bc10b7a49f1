// Seeded mutations of PTX text, from bytes that are not text to instructions that are nearly right.
#pragma once

#include <cstdint>
#include <string>

namespace qgpu {

// `text` after one to eight random edits; pieces of `other` may be among them. Equal seeds give equal text, which is at
// most twice as long and 1000 characters more.
std::string MutatePtx(const std::string& text, const std::string& other, uint64_t seed);

}  // namespace qgpu
