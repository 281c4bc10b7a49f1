// What a checkpoint directory holds, whatever it is and however damaged: for people who want to know why it is refused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/base/model_shape.h"

namespace qgpu {

struct TypeFigures {
  int64_t tensors = 0;
  uint64_t elements = 0, bytes = 0;
};

struct WeightFileFigures {
  std::string name;
  uint64_t bytes = 0;
  int64_t tensors = 0;
};

struct CheckpointReport {
  std::string directory;
  std::string model_type, architecture;      // as config.json has them; empty where it does not
  std::optional<ModelShape> shape;           // where config.json is that of a Qwen3.5 text model
  std::vector<WeightFileFigures> files;      // those that could be read
  std::map<std::string, TypeFigures> types;  // of all tensors, by the header's name of the type
  uint64_t used_parameters = 0;              // of tensors that the text model is made of
  int64_t skipped_tensors = 0;               // vision, multi-token prediction and whatever else is not read
  uint64_t skipped_parameters = 0;
  std::vector<std::string> skipped_examples;  // up to 5 names
  std::string circuit;         // hash of the circuit that is merged into it; empty for anything but an export of ours
  bool has_tokenizer = false;  // tokenizer.json is there
  // Everything that keeps it from being loaded, and what a check of all bytes found; empty for a good checkpoint.
  std::vector<std::string> damage;
};

struct InspectOptions {
  // Reads every byte: hashes against qgpu_manifest.json where there is one, and weights that are not finite numbers.
  bool all_bytes = false;
};

// kNotFound where `directory` is no directory; everything else that is wrong is in the report.
absl::StatusOr<CheckpointReport> InspectCheckpoint(const std::string& directory, const InspectOptions& options = {});

// Parameters of a model of that shape.
uint64_t CountParameters(const ModelShape& shape);

}  // namespace qgpu
