#include "model/merge/export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "common/sha256.h"
#include "machine/isa/token.h"
#include "model/base/safetensors.h"
#include "model/base/untrusted_json.h"
#include "model/merge/merged_model.h"
#include "model/merge/partial_folder.h"
#include "model/merge/tokenizer_files.h"

namespace qgpu {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = size_t{128} << 20;
// Copied as they are where the base has them.
constexpr const char* kCopiedFiles[] = {"chat_template.jinja", "special_tokens_map.json", "vocab.json", "merges.txt"};

using Shard = std::vector<TensorSpec>;

// Tensors of one file: as many as fit, at least one.
std::vector<Shard> PlanShards(const ModelShape& shape, StoredType type, uint64_t shard_bytes) {
  std::vector<Shard> shards;
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

uint64_t BytesOf(const Shard& specs, StoredType type) {
  uint64_t total = 0;
  for (const TensorSpec& spec : specs) total += spec.elements() * StoredTypeSize(type);
  return total;
}

std::string ShardName(size_t index, size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

// Counts what passes through to the writer.
class ReportingSource : public TensorSource {
 public:
  ReportingSource(const TensorSource& source, StoredType type, const ExportOptions& options, uint64_t total)
      : source_(source), type_(type), options_(options), total_(total) {}

  const ModelShape& shape() const override { return source_.shape(); }
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override {
    QGPU_RETURN_IF_ERROR(source_.ReadRows(spec, first_row, rows, out));
    Skip(rows * spec.row_size() * StoredTypeSize(type_));
    return absl::OkStatus();
  }
  // Bytes that were there already.
  void Skip(uint64_t bytes) const {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

 private:
  const TensorSource& source_;
  StoredType type_;
  const ExportOptions& options_;
  uint64_t total_;
  mutable uint64_t done_ = 0;
};

std::vector<std::string> MachineTokenTexts(int32_t machine_ids, const ExportOptions& options) {
  std::vector<std::string> texts;
  for (int32_t id = 0; id < machine_ids; ++id) {
    texts.push_back(options.token_text ? options.token_text(id) : TokenText(TokenFromId(id).value()));
  }
  return texts;
}

// The end tokens of a config.json or generation_config.json; empty where it names none.
json EndTokens(const std::string& text) {
  const absl::StatusOr<json> config = ParseUntrustedJson(text);
  if (!config.ok() || !config->is_object()) return json::array();
  const json nested = config->value("text_config", json());
  const json ends = config->contains("eos_token_id") ? (*config)["eos_token_id"]
                    : nested.is_object()             ? nested.value("eos_token_id", json())
                                                     : json();
  json list = json::array();
  for (const json& end : ends.is_array() ? ends : json::array({ends})) {
    if (end.is_number_unsigned()) list.push_back(end);
  }
  return list;
}

std::string ReadIfThere(const std::string& path) {
  absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxTextBytes);
  return text.ok() ? *std::move(text) : std::string();
}

// The base's generation settings, greedy, ending at its own end tokens or at DONE.
std::string GenerationConfig(const std::string& base_directory, int64_t done_token) {
  const std::string text = ReadIfThere(base_directory + "/generation_config.json");
  const absl::StatusOr<json> base = ParseUntrustedJson(text);
  json config = base.ok() && base->is_object() ? *base : json::object();
  json ends = EndTokens(text);
  if (ends.empty()) ends = EndTokens(ReadIfThere(base_directory + "/config.json"));
  ends.push_back(done_token);
  config["eos_token_id"] = ends;
  config["do_sample"] = false;
  for (const char* sampling : {"temperature", "top_k", "top_p", "min_p"}) config.erase(sampling);
  return config.dump(2) + "\n";
}

// One export: what goes into it, and the steps that make it.
class Exporter {
 public:
  Exporter(const Circuit& circuit, const MergedModel& model, const ExportOptions& options)
      : circuit_(circuit),
        model_(model),
        options_(options),
        type_(options.type == DataType::kFloat32 ? StoredType::kFloat32 : StoredType::kBFloat16),
        shards_(PlanShards(model.shape(), type_, options.shard_bytes)),
        texts_(MachineTokenTexts(circuit.embedding.rows, options)) {}

  // The same string means the same bytes in every file.
  std::string Identity() const {
    json base = json::array();
    for (const std::string& path : model_.base().WeightFiles()) {
      struct stat info = {};
      stat(path.c_str(), &info);
      base.push_back({path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino});
    }
    const json all = {{"format", 1},
                      {"circuit", CircuitHash(circuit_)},
                      {"base", base},
                      {"config", ReadIfThere(model_.base().directory() + "/config.json")},
                      {"dtype", DataTypeName(options_.type)},
                      {"shard_bytes", options_.shard_bytes}};
    return Sha256Hex(all.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  // Small files first: a base that cannot be merged is refused before gigabytes are written.
  absl::Status Write(PartialFolder& folder) const {
    QGPU_RETURN_IF_ERROR(WriteTexts(folder));
    QGPU_RETURN_IF_ERROR(WriteWeights(folder));
    return WriteManifestAndConfig(folder);
  }

 private:
  absl::Status WriteTexts(PartialFolder& folder) const {
    const std::string base = model_.base().directory();
    const int64_t first = model_.first_machine_token();
    QGPU_RETURN_IF_ERROR(WriteTokenizer(folder, "tokenizer.json", AddTokens));
    QGPU_RETURN_IF_ERROR(WriteTokenizer(folder, "tokenizer_config.json", AddTokensToConfig));
    for (const char* name : kCopiedFiles) {
      const std::string text = ReadIfThere(base + "/" + name);
      if (!text.empty()) QGPU_RETURN_IF_ERROR(folder.WriteText(name, text));
    }
    const int32_t done_id = options_.done_id >= 0 ? options_.done_id : TokenToId(Token::Done());
    return folder.WriteText("generation_config.json", GenerationConfig(base, first + done_id));
  }

  template <typename Adder>
  absl::Status WriteTokenizer(PartialFolder& folder, const std::string& name, Adder add) const {
    const std::string path = model_.base().directory() + "/" + name;
    const absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxTextBytes);
    if (absl::IsNotFound(text.status())) return absl::OkStatus();
    QGPU_RETURN_IF_ERROR(text.status());
    const absl::StatusOr<std::string> merged = add(*text, model_.first_machine_token(), texts_);
    if (merged.ok()) return folder.WriteText(name, *merged);
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(merged.status().message())));
  }

  absl::Status WriteWeights(PartialFolder& folder) const {
    uint64_t total = 0, missing = 0;
    for (size_t i = 0; i < shards_.size(); ++i) {
      total += BytesOf(shards_[i], type_);
      if (!folder.has(ShardName(i, shards_.size()))) missing += BytesOf(shards_[i], type_);
    }
    QGPU_ASSIGN_OR_RETURN(const uint64_t free_bytes, folder.FreeBytes());
    if (free_bytes < missing) {
      return absl::ResourceExhaustedError(fmt::format("{} needs {} MiB more, the disk has {} MiB", folder.path(),
                                                      (missing >> 20) + 1, free_bytes >> 20));
    }
    const ReportingSource source(model_, type_, options_, total);
    if (missing < total) source.Skip(total - missing);
    ordered_json weight_map = ordered_json::object();
    for (size_t i = 0; i < shards_.size(); ++i) {
      const std::string name = ShardName(i, shards_.size());
      for (const TensorSpec& spec : shards_[i]) weight_map[FileTensorName(spec.name)] = name;
      if (!folder.has(name)) QGPU_RETURN_IF_ERROR(WriteShard(folder, source, shards_[i], name));
    }
    if (shards_.size() == 1) return absl::OkStatus();
    const ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    return folder.WriteText("model.safetensors.index.json", index.dump(1) + "\n");
  }

  absl::Status WriteShard(PartialFolder& folder, const TensorSource& source, const Shard& shard,
                          const std::string& name) const {
    const absl::StatusOr<std::string> digest = WriteTensors(source, shard, type_, folder.PartName(name));
    if (digest.ok()) return folder.Complete(name, *digest);
    unlink(folder.PartName(name).c_str());
    return digest.status();
  }

  // config.json last: without it nothing loads the folder.
  absl::Status WriteManifestAndConfig(PartialFolder& folder) const {
    const std::string config = ModelShapeToConfig(model_.shape(), DataTypeName(options_.type), -1);
    ordered_json files = ordered_json::object();
    for (const auto& [name, file] : folder.files()) files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
    files["config.json"] = {{"bytes", config.size()}, {"sha256", Sha256Hex(config)}};
    const ordered_json manifest = {{"form", "dense"},
                                   {"dtype", DataTypeName(options_.type)},
                                   {"circuit", CircuitHash(circuit_)},
                                   {"compiled_layers", model_.compiled_layers()},
                                   {"first_machine_token", model_.first_machine_token()},
                                   {"files", files}};
    QGPU_RETURN_IF_ERROR(folder.WriteText("qgpu_manifest.json", manifest.dump(2) + "\n"));
    return folder.WriteText("config.json", config);
  }

  const Circuit& circuit_;
  const MergedModel& model_;
  const ExportOptions& options_;
  StoredType type_;
  std::vector<Shard> shards_;
  std::vector<std::string> texts_;  // of the machine's tokens
};

bool HasShard(const PartialFolder& folder) {
  const auto files = folder.files();
  return std::any_of(files.begin(), files.end(), [](const auto& file) { return file.first.ends_with(".safetensors"); });
}

}  // namespace

absl::Status ExportDense(const Circuit& circuit, const std::string& base_directory, const std::string& out_directory,
                         const ExportOptions& options) {
  if (options.type == DataType::kFloat16) {
    return absl::InvalidArgumentError("the circuit does not run in float16; export float32 or bfloat16");
  }
  QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(base_directory));
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<const MergedModel> model, MergedModel::Create(circuit, std::move(base)));
  const Exporter exporter(circuit, *model, options);
  const std::string identity = exporter.Identity();
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<PartialFolder> folder, PartialFolder::Open(out_directory, identity));
  absl::Status status = exporter.Write(*folder);
  if (exporter.Identity() != identity) {  // shards of two bases, or of one that is half written
    folder->Discard();
    return absl::FailedPreconditionError(
        fmt::format("{} was changed while it was exported; nothing is kept, run the export again", base_directory));
  }
  if (status.ok()) status = folder->Publish();
  if (status.ok()) return status;
  if (!HasShard(*folder)) {
    folder->Discard();
    return status;
  }
  return absl::Status(status.code(), fmt::format("{}; what is complete stays in {}, and the same command goes on there",
                                                 std::string(status.message()), folder->path()));
}

}  // namespace qgpu
