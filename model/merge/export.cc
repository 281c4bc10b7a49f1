#include "model/merge/export.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "common/file.h"
#include "common/sha256.h"
#include "machine/isa/token.h"
#include "model/base/safetensors.h"
#include "model/merge/merged_model.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
// Copied as they are where the base has them.
constexpr const char* kCopiedFiles[] = {"tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json",
                                        "vocab.json", "merges.txt"};

// Tensors of one file: as many as fit, at least one.
std::vector<std::vector<TensorSpec>> PlanShards(const ModelShape& shape, StoredType type, uint64_t shard_bytes) {
  std::vector<std::vector<TensorSpec>> shards;
  uint64_t used = 0;
  for (TensorSpec& spec : ModelTensors(shape)) {
    const uint64_t size = spec.elements() * StoredTypeSize(type);
    if (shards.empty() || used + size > shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    used += size;
    shards.back().push_back(std::move(spec));
  }
  return shards;
}

uint64_t TotalBytes(const ModelShape& shape, StoredType type) {
  uint64_t total = 0;
  for (const TensorSpec& spec : ModelTensors(shape)) total += spec.elements() * StoredTypeSize(type);
  return total;
}

// Counts what passes through to the writer.
class ReportingSource : public TensorSource {
 public:
  ReportingSource(const TensorSource& source, StoredType type, const ExportOptions& options)
      : source_(source), type_(type), options_(options), total_(TotalBytes(source.shape(), type)) {}

  const ModelShape& shape() const override { return source_.shape(); }
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override {
    QGPU_RETURN_IF_ERROR(source_.ReadRows(spec, first_row, rows, out));
    done_ += rows * spec.row_size() * StoredTypeSize(type_);
    if (options_.progress) options_.progress(done_, total_);
    return absl::OkStatus();
  }

 private:
  const TensorSource& source_;
  StoredType type_;
  const ExportOptions& options_;
  uint64_t total_;
  mutable uint64_t done_ = 0;
};

// Writes the files of one export into a directory and keeps the list for the manifest.
class ExportWriter {
 public:
  explicit ExportWriter(std::string directory) : directory_(std::move(directory)) {}

  absl::Status WriteText(const std::string& name, const std::string& text) {
    QGPU_RETURN_IF_ERROR(WriteFileAtomically(directory_ + "/" + name, text));
    AddToManifest(name, Sha256Hex(text));
    return absl::OkStatus();
  }

  absl::Status WriteWeights(const TensorSource& source, StoredType type, uint64_t shard_bytes) {
    const auto shards = PlanShards(source.shape(), type, shard_bytes);
    ordered_json weight_map = ordered_json::object();
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      QGPU_ASSIGN_OR_RETURN(const std::string digest, WriteTensors(source, shards[i], type, directory_ + "/" + name));
      AddToManifest(name, digest);
      for (const TensorSpec& spec : shards[i]) weight_map[FileTensorName(spec.name)] = name;
    }
    if (shards.size() == 1) return absl::OkStatus();
    const ordered_json index = {{"metadata", {{"total_size", TotalBytes(source.shape(), type)}}},
                                {"weight_map", weight_map}};
    return WriteText("model.safetensors.index.json", index.dump(1) + "\n");
  }

  absl::Status WriteManifest(ordered_json about) {
    about["files"] = manifest_;
    return WriteFileAtomically(directory_ + "/qgpu_manifest.json", about.dump(2) + "\n");
  }

 private:
  void AddToManifest(const std::string& name, const std::string& digest) {
    manifest_[name] = {{"bytes", fs::file_size(directory_ + "/" + name)}, {"sha256", digest}};
  }

  std::string directory_;
  ordered_json manifest_ = ordered_json::object();
};

std::vector<std::string> MachineTokenTexts(int32_t machine_ids, const ExportOptions& options) {
  std::vector<std::string> texts;
  for (int32_t id = 0; id < machine_ids; ++id) {
    texts.push_back(options.token_text ? options.token_text(id) : TokenText(TokenFromId(id).value()));
  }
  return texts;
}

// The base's generation settings, greedy, ending at its own end tokens or at DONE.
std::string GenerationConfig(const std::string& base_config, int64_t done_token) {
  ordered_json config = ordered_json::parse(base_config, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) config = ordered_json::object();
  ordered_json ends = ordered_json::array();
  if (const auto it = config.find("eos_token_id"); it != config.end()) {
    for (const ordered_json& end : it->is_array() ? *it : ordered_json::array({*it})) ends.push_back(end);
  }
  ends.push_back(done_token);
  config["eos_token_id"] = ends;
  config["do_sample"] = false;
  for (const char* sampling : {"temperature", "top_k", "top_p", "min_p"}) config.erase(sampling);
  return config.dump(2) + "\n";
}

std::string ReadIfThere(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxTokenizerBytes);
  return text.ok() ? *std::move(text) : std::string();
}

absl::Status WriteEverything(const Circuit& circuit, const MergedModel& model, const ExportOptions& options,
                             const std::string& directory) {
  const std::string base = model.base().directory();
  const StoredType type = options.type == DataType::kFloat32 ? StoredType::kFloat32 : StoredType::kBFloat16;
  const int32_t done_id = options.done_id >= 0 ? options.done_id : TokenToId(Token::Done());
  ExportWriter writer(directory);

  // Small files first: a base that cannot be merged is refused before gigabytes are written.
  QGPU_ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(base + "/tokenizer.json", kMaxTokenizerBytes));
  absl::StatusOr<std::string> merged_tokenizer =
      AddTokens(tokenizer, model.first_machine_token(), MachineTokenTexts(circuit.embedding.rows, options));
  if (!merged_tokenizer.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}/tokenizer.json: {}", base, std::string(merged_tokenizer.status().message())));
  }
  QGPU_RETURN_IF_ERROR(writer.WriteText("tokenizer.json", *merged_tokenizer));
  for (const char* name : kCopiedFiles) {
    const std::string text = ReadIfThere(base + "/" + name);
    if (!text.empty()) QGPU_RETURN_IF_ERROR(writer.WriteText(name, text));
  }
  QGPU_RETURN_IF_ERROR(writer.WriteText(
      "generation_config.json",
      GenerationConfig(ReadIfThere(base + "/generation_config.json"), model.first_machine_token() + done_id)));
  QGPU_RETURN_IF_ERROR(
      writer.WriteText("config.json", ModelShapeToConfig(model.shape(), DataTypeName(options.type), -1)));
  QGPU_RETURN_IF_ERROR(writer.WriteWeights(ReportingSource(model, type, options), type, options.shard_bytes));
  return writer.WriteManifest({{"form", "dense"},
                               {"dtype", DataTypeName(options.type)},
                               {"circuit", CircuitHash(circuit)},
                               {"compiled_layers", model.compiled_layers()},
                               {"first_machine_token", model.first_machine_token()}});
}

absl::Status FileSystemError(const std::string& what, const std::error_code& error) {
  const std::string message = fmt::format("{}: {}", what, error.message());
  if (error == std::errc::no_space_on_device) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> AddTokens(const std::string& tokenizer_json, int64_t first_id,
                                      const std::vector<std::string>& texts) {
  // Not ordered_json: its look-up is linear, and vocabularies have a quarter of a million entries.
  nlohmann::json tokenizer = nlohmann::json::parse(tokenizer_json, nullptr, /*allow_exceptions=*/false);
  const auto is_object = [](const nlohmann::json& parent, const char* key) {
    return parent.is_object() && parent.contains(key) && parent[key].is_object();
  };
  if (!is_object(tokenizer, "model") || !is_object(tokenizer["model"], "vocab")) {
    return absl::InvalidArgumentError("not a BPE tokenizer file (no object model.vocab)");
  }
  nlohmann::json& vocabulary = tokenizer["model"]["vocab"];
  nlohmann::json& added = tokenizer["added_tokens"];
  if (added.is_null()) added = nlohmann::json::array();
  if (!added.is_array()) return absl::InvalidArgumentError("added_tokens is not a list");

  std::set<std::string> taken;
  const auto check_id = [&](const nlohmann::json& id) {
    return id.is_number_integer() && id.get<int64_t>() < first_id;
  };
  for (const auto& [text, id] : vocabulary.items()) {
    if (!check_id(id)) return absl::InvalidArgumentError(fmt::format("token \"{}\" has id {}", text, id.dump()));
    taken.insert(text);
  }
  for (const nlohmann::json& token : added) {
    if (!token.is_object() || !token.contains("id") || !check_id(token["id"])) {
      return absl::InvalidArgumentError(fmt::format("added token {} has no id below {}", token.dump(), first_id));
    }
    if (token.contains("content") && token["content"].is_string()) taken.insert(token["content"].get<std::string>());
  }
  // In the vocabulary as well as in the list of added tokens: only so do they keep their ids when the base's vocabulary
  // is larger than its tokenizer.
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t id = first_id + static_cast<int64_t>(i);
    if (!taken.insert(texts[i]).second)
      return absl::InvalidArgumentError(fmt::format("token \"{}\" is taken", texts[i]));
    vocabulary[texts[i]] = id;
    added.push_back({{"id", id},
                     {"content", texts[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", false}});
  }
  return tokenizer.dump(1) + "\n";
}

absl::Status ExportDense(const Circuit& circuit, const std::string& base_directory, const std::string& out_directory,
                         const ExportOptions& options) {
  if (options.type == DataType::kFloat16) {
    return absl::InvalidArgumentError("the circuit does not run in float16; export float32 or bfloat16");
  }
  const std::string out = fs::path(out_directory + "/").parent_path().lexically_normal();
  std::error_code error;
  if (fs::exists(out, error)) {
    return absl::AlreadyExistsError(fmt::format("{} exists; remove it or name another directory", out));
  }
  QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<const MergedModel> model, MergedModel::Create(circuit, std::move(base)));

  const std::string partial = fmt::format("{}.partial-{}", out, getpid());
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return FileSystemError("cannot create " + partial, error);
  absl::Status status = WriteEverything(circuit, *model, options, partial);
  if (status.ok()) {
    fs::rename(partial, out, error);
    if (error) status = FileSystemError(fmt::format("cannot rename {} to {}", partial, out), error);
  }
  if (!status.ok()) fs::remove_all(partial, error);
  return status;
}

}  // namespace qgpu
