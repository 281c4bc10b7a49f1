// A small Qwen3.5-architecture checkpoint with seeded random weights, in Hugging Face form. It stands in where a real
// base model is not at hand: every part can be run and compared on it, but it says nothing about text quality.
#pragma once

#include <cstdint>
#include <string>

#include "model/base/model_shape.h"
#include "model/base/safetensors.h"

namespace qgpu {

// The embedded base: hidden 256, three linear attention layers and a full one, vocabulary 512, tied head.
ModelShape EmbeddedBaseShape();
inline constexpr uint64_t kEmbeddedBaseSeed = 20250;

// Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json and generation_config.json into
// `directory` (created if need be). Same shape, seed and type give the same bytes on every machine. The vocabulary must
// hold at least the 259 tokens of the byte-level tokenizer. Errors of the file system.
absl::Status WriteRandomBase(const std::string& directory, const ModelShape& shape, uint64_t seed,
                             StoredType type = StoredType::kBFloat16);

// Where the embedded base is kept once it was made: $QGPU_CACHE, else qgpu in the user's cache folder.
std::string BaseCacheDirectory();
// The embedded base's directory: written by WriteRandomBase under `cache_directory` on first use (complete or not at
// all, also when several processes start at once), found there afterwards.
absl::StatusOr<std::string> EmbeddedBase(const std::string& cache_directory);

}  // namespace qgpu
