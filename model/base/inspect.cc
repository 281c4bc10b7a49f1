#include "model/base/inspect.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "model/base/checkpoint_files.h"
#include "model/base/file_hash.h"
#include "model/base/safetensors.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxTextBytes = size_t{16} << 20;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

uint64_t Elements(const StoredTensor& tensor) {
  uint64_t count = 1;
  for (int64_t dim : tensor.dims) count *= dim;
  return count;
}

std::string TextField(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? PrintableName(it->get<std::string>()) : "";
}

void ReadConfig(CheckpointReport& report) {
  const absl::StatusOr<std::string> text = ReadUntrustedText(report.directory + "/config.json", kMaxConfigBytes);
  if (!text.ok()) {
    report.damage.push_back(Message(text.status()));
    return;
  }
  const absl::StatusOr<json> config = ParseUntrustedJson(*text);
  if (config.ok() && config->is_object()) {
    report.model_type = TextField(*config, "model_type");
    const auto names = config->find("architectures");
    if (names != config->end() && names->is_array() && !names->empty() && (*names)[0].is_string()) {
      report.architecture = PrintableName((*names)[0].get<std::string>());
    }
  }
  absl::StatusOr<ModelShape> shape = ParseModelShape(*text);
  if (shape.ok()) report.shape = *std::move(shape);
  if (!shape.ok()) report.damage.push_back(Message(shape.status()));
}

// Values of a tensor that are no finite numbers. Errors of its file.
absl::StatusOr<int64_t> CountNotFinite(const FoundTensor& found) {
  constexpr int64_t kBlock = 1 << 20;
  const int64_t elements = static_cast<int64_t>(Elements(*found.tensor));
  std::vector<float> block(std::min(kBlock, elements));
  int64_t bad = 0;
  for (int64_t at = 0; at < elements; at += kBlock) {
    const int64_t count = std::min(kBlock, elements - at);
    QGPU_RETURN_IF_ERROR(found.Read(at, count, block.data()));
    bad += std::count_if(block.begin(), block.begin() + count, [](float value) { return !std::isfinite(value); });
  }
  return bad;
}

void CountTensors(const FoundTensors& found, const std::set<const StoredTensor*>& used, CheckpointReport& report) {
  constexpr size_t kExamples = 5;
  for (const auto& [name, place] : found) {
    const StoredTensor& tensor = *place.tensor;
    TypeFigures& figures = report.types[tensor.type_name];
    ++figures.tensors;
    figures.elements += Elements(tensor);
    figures.bytes += tensor.size;
    if (used.contains(&tensor)) {
      report.used_parameters += Elements(tensor);
      continue;
    }
    ++report.skipped_tensors;
    report.skipped_parameters += Elements(tensor);
    if (report.skipped_examples.size() < kExamples) report.skipped_examples.push_back(PrintableName(name));
  }
}

void ReadWeights(CheckpointReport& report, bool all_bytes) {
  const absl::StatusOr<WeightFileList> list = ListWeightFiles(report.directory);
  if (!list.ok()) {
    report.damage.push_back(Message(list.status()));
    return;
  }
  std::vector<std::unique_ptr<const SafetensorsFile>> files;
  FoundTensors found;
  for (const std::string& name : list->names) {
    auto file = SafetensorsFile::Open(report.directory + "/" + name);
    if (!file.ok()) {
      report.damage.push_back(Message(file.status()));
      continue;
    }
    report.files.push_back({name, (*file)->size(), static_cast<int64_t>((*file)->tensors().size())});
    for (std::string& problem : AddTensorsOf(**file, name, *list, found)) report.damage.push_back(std::move(problem));
    files.push_back(*std::move(file));
  }
  std::set<const StoredTensor*> used;
  if (report.shape) {
    TensorMatch match = MatchTensors(*report.shape, found);
    for (std::string& problem : match.problems) report.damage.push_back(std::move(problem));
    for (const auto& [name, tensor] : match.used) {
      used.insert(tensor.tensor);
      const absl::StatusOr<int64_t> bad = all_bytes ? CountNotFinite(tensor) : 0;
      if (bad.ok() && *bad == 0) continue;
      report.damage.push_back(
          bad.ok() ? fmt::format("tensor {}: {} values are not finite numbers", match.file_name_of[name], *bad)
                   : Message(bad.status()));
    }
  }
  CountTensors(found, used, report);
}

// Sizes and, where all bytes are read, hashes of what an export of ours lists.
void CheckManifest(CheckpointReport& report, bool all_bytes) {
  const std::string path = report.directory + "/qgpu_manifest.json";
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxTextBytes);
  const absl::StatusOr<json> manifest = text.ok() ? ParseUntrustedJson(*text) : text.status();
  if (!manifest.ok() || !manifest->is_object() || !manifest->contains("files") || !(*manifest)["files"].is_object()) {
    report.damage.push_back(path + ": no list of files");
    return;
  }
  report.circuit = TextField(*manifest, "circuit");
  for (const auto& [name, entry] : (*manifest)["files"].items()) {
    const std::string file = report.directory + "/" + name, shown = PrintableName(name);
    if (name.find('/') != name.npos || !entry.is_object()) {
      report.damage.push_back(fmt::format("{}: \"{}\" is no entry of a file", path, shown));
      continue;
    }
    const uint64_t bytes = fs::file_size(file, error);
    if (error) {
      report.damage.push_back(fmt::format("{} is missing ({} lists it)", shown, path));
    } else if (entry.value("bytes", json()) != json(bytes)) {
      report.damage.push_back(fmt::format("{} has {} bytes, {} says {}", shown, bytes, path,
                                          PrintableName(entry.value("bytes", json()).dump())));
    } else if (all_bytes) {
      const absl::StatusOr<std::string> digest = FileSha256(file);
      if (digest.ok() && entry.value("sha256", json()) == json(*digest)) continue;
      report.damage.push_back(digest.ok() ? fmt::format("{} has SHA-256 {}, {} has another", shown, *digest, path)
                                          : Message(digest.status()));
    }
  }
}

}  // namespace

absl::StatusOr<CheckpointReport> InspectCheckpoint(const std::string& directory, const InspectOptions& options) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return absl::NotFoundError(fmt::format("{} is not a directory", directory));
  }
  CheckpointReport report;
  report.directory = directory;
  report.has_tokenizer = fs::is_regular_file(directory + "/tokenizer.json", error);
  ReadConfig(report);
  ReadWeights(report, options.all_bytes);
  CheckManifest(report, options.all_bytes);
  return report;
}

uint64_t CountParameters(const ModelShape& shape) {
  uint64_t count = 0;
  for (const TensorSpec& spec : ModelTensors(shape)) count += spec.elements();
  return count;
}

}  // namespace qgpu
