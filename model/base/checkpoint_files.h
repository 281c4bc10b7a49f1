// The weight files of a checkpoint directory, and which of their tensors a model of some shape is made of. What
// Checkpoint::Open and InspectCheckpoint share: the one stops at the first problem, the other lists all.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/base/model_shape.h"
#include "model/base/safetensors.h"

namespace qgpu {

// The files to be read, in name order, and where the index says each tensor is (empty for a single model.safetensors).
struct WeightFileList {
  std::vector<std::string> names;
  std::map<std::string, std::string> file_of;
};
// kNotFound: neither model.safetensors nor an index. kInvalidArgument: a malformed index, or one that names a file
// elsewhere.
absl::StatusOr<WeightFileList> ListWeightFiles(const std::string& directory);

// A tensor and the file it is in; valid while the file is.
struct FoundTensor {
  const StoredTensor* tensor = nullptr;
  const SafetensorsFile* file = nullptr;
  std::string file_name;

  // As SafetensorsFile::Read.
  absl::Status Read(int64_t first, int64_t count, float* out) const { return file->Read(*tensor, first, count, out); }
};
using FoundTensors = std::map<std::string, FoundTensor>;  // by name in the file

// Adds a file's tensors; what is wrong with them (a name that another file has too, or that the index puts elsewhere).
std::vector<std::string> AddTensorsOf(const SafetensorsFile& file, const std::string& file_name,
                                      const WeightFileList& list, FoundTensors& found);

// Which tensors a model of that shape uses.
struct TensorMatch {
  std::map<std::string, FoundTensor> used;          // by spec name
  std::map<std::string, std::string> file_name_of;  // name in the file, by spec name
  std::vector<std::string> problems;                // missing, misshapen, of a type that is not read, more layers, a
                                                    // tied head that is not the embedding
};
TensorMatch MatchTensors(const ModelShape& shape, const FoundTensors& found);

std::string DimsText(const std::vector<int64_t>& dims);

}  // namespace qgpu
