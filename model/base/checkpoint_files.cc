#include "model/base/checkpoint_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

constexpr size_t kMaxIndexBytes = size_t{16} << 20;
constexpr size_t kMaxFiles = 4096;
constexpr const char* kNestedPrefix = "model.language_model.";
constexpr const char* kFlatPrefix = "model.";

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

absl::StatusOr<WeightFileList> ReadIndex(const std::string& path) {
  QGPU_ASSIGN_OR_RETURN(const std::string text, ReadUntrustedText(path, kMaxIndexBytes));
  absl::StatusOr<nlohmann::json> index = ParseUntrustedJson(text);
  const auto fail = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, what));
  };
  if (!index.ok()) return fail(std::string(index.status().message()));
  if (!index->is_object() || !index->contains("weight_map") || !(*index)["weight_map"].is_object() ||
      (*index)["weight_map"].empty()) {
    return fail("no weight_map object");
  }
  WeightFileList list;
  std::set<std::string> names;
  for (const auto& [tensor, file] : (*index)["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!IsPlainFileName(name)) {
      return fail(fmt::format("tensor {} names \"{}\", which is not a file beside the index", PrintableName(tensor),
                              PrintableName(name)));
    }
    names.insert(name);
    list.file_of[tensor] = name;
  }
  if (names.size() > kMaxFiles) return fail(fmt::format("{} files, more than {}", names.size(), kMaxFiles));
  list.names.assign(names.begin(), names.end());
  return list;
}

// The number in "layers.N." at the start of a name; -1 where there is none.
int64_t LayerNumber(const std::string& name) {
  if (!name.starts_with("layers.")) return -1;
  const size_t begin = 7, end = name.find('.', begin);
  if (end == name.npos || end == begin || end - begin > 9) return -1;
  int64_t number = 0;
  for (size_t i = begin; i < end; ++i) {
    if (name[i] < '0' || name[i] > '9') return -1;
    number = 10 * number + (name[i] - '0');
  }
  return number;
}

// A model with fewer layers than its files hold is not the model that was trained.
void FindLayersBeyond(const ModelShape& shape, const FoundTensors& found, const std::string& prefix,
                      std::vector<std::string>& problems) {
  const int64_t layers = static_cast<int64_t>(shape.layers.size());
  int64_t highest = -1;
  for (auto it = found.lower_bound(prefix + "layers."); it != found.end() && it->first.starts_with(prefix); ++it) {
    highest = std::max(highest, LayerNumber(it->first.substr(prefix.size())));
  }
  if (highest < layers) return;
  problems.push_back(fmt::format("the files hold layer {}, but config.json asks for {} layers only (num_hidden_layers)",
                                 highest, layers));
}

// Many files hold the embedding a second time as the head it is tied to. Another head there means that config.json is
// wrong (the reference library then does not tie them); the returned text says so, empty where they are alike.
std::string CompareTied(const FoundTensor& embedding, const FoundTensor& head) {
  constexpr const char* kRemedy = "set tie_word_embeddings to false in config.json, or take lm_head.weight out";
  if (head.tensor->dims != embedding.tensor->dims || head.tensor->type == StoredType::kOther) {
    return fmt::format("config.json ties the head to the embedding, but lm_head.weight has type {} and shape {}; {}",
                       head.tensor->type_name, DimsText(head.tensor->dims), kRemedy);
  }
  constexpr int64_t kBlock = 1 << 20;
  const int64_t elements = embedding.tensor->dims[0] * embedding.tensor->dims[1];
  std::vector<float> a(std::min(kBlock, elements)), b(a.size());
  for (int64_t at = 0; at < elements; at += kBlock) {
    const int64_t count = std::min(kBlock, elements - at);
    absl::Status status = embedding.Read(at, count, a.data());
    status.Update(head.Read(at, count, b.data()));
    if (!status.ok()) return std::string(status.message());
    embedding.file->ReleasePages();
    head.file->ReleasePages();
    if (std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0) continue;
    return fmt::format(
        "config.json ties the head to the embedding (tie_word_embeddings), but lm_head.weight has other values; {}",
        kRemedy);
  }
  return "";
}

}  // namespace

std::string DimsText(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

absl::StatusOr<WeightFileList> ListWeightFiles(const std::string& directory) {
  const std::string single = directory + "/model.safetensors", index = single + ".index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored)) return WeightFileList{{"model.safetensors"}, {}};
  if (std::filesystem::exists(index, ignored)) return ReadIndex(index);
  return absl::NotFoundError(
      fmt::format("{} has neither model.safetensors nor model.safetensors.index.json", directory));
}

std::vector<std::string> AddTensorsOf(const SafetensorsFile& file, const std::string& file_name,
                                      const WeightFileList& list, FoundTensors& found) {
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!found.emplace(name, FoundTensor{&tensor, &file, file_name}).second) {
      problems.push_back(
          fmt::format("tensor {} is in two files, {} and {}", PrintableName(name), found[name].file_name, file_name));
    }
    const auto indexed = list.file_of.find(name);
    if (indexed != list.file_of.end() && indexed->second != file_name) {
      problems.push_back(fmt::format("tensor {} is in {}, the index says {}", PrintableName(name), file_name,
                                     PrintableName(indexed->second)));
    }
  }
  return problems;
}

TensorMatch MatchTensors(const ModelShape& shape, const FoundTensors& found) {
  TensorMatch match;
  const bool is_nested = found.contains(std::string(kNestedPrefix) + "embed_tokens.weight");
  const std::string prefix = is_nested ? kNestedPrefix : kFlatPrefix;
  for (const TensorSpec& spec : ModelTensors(shape)) {
    const bool is_head = spec.name == "lm_head.weight";
    const std::string name = is_head ? spec.name : prefix + spec.name;
    const auto it = found.find(name);
    if (it == found.end()) {
      match.problems.push_back(fmt::format("tensor {} is missing{}", name,
                                           is_head ? " (config.json says that it is not tied to the embedding)" : ""));
      continue;
    }
    const StoredTensor& tensor = *it->second.tensor;
    if (tensor.dims != spec.dims) {
      match.problems.push_back(fmt::format("tensor {} has shape {}, config.json asks for {}", name,
                                           DimsText(tensor.dims), DimsText(spec.dims)));
    } else if (tensor.type == StoredType::kOther) {
      match.problems.push_back(
          fmt::format("tensor {} is stored as {}; F32, BF16 or F16 is supported", name, tensor.type_name));
    } else {
      match.used[spec.name] = it->second;
      match.file_name_of[spec.name] = name;
    }
  }
  FindLayersBeyond(shape, found, prefix, match.problems);
  const auto head = found.find("lm_head.weight");
  if (shape.tied_head && head != found.end() && match.used.contains("embed_tokens.weight")) {
    std::string problem = CompareTied(match.used.at("embed_tokens.weight"), head->second);
    if (!problem.empty()) match.problems.push_back(std::move(problem));
  }
  return match;
}

}  // namespace qgpu
