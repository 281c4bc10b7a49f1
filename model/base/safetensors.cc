#include "model/base/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "model/base/stored_type.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

using nlohmann::json;

// Enough for 100,000 tensors; a parsed header takes up to fifty times its size in memory.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr size_t kMaxDims = 16;

struct TypeInfo {
  const char* name;
  uint64_t bits;
  StoredType type;
};
constexpr TypeInfo kTypes[] = {
    {"F32", 32, StoredType::kFloat32},      {"BF16", 16, StoredType::kBFloat16}, {"F16", 16, StoredType::kFloat16},
    {"F64", 64, StoredType::kOther},        {"C64", 64, StoredType::kOther},     {"I64", 64, StoredType::kOther},
    {"U64", 64, StoredType::kOther},        {"I32", 32, StoredType::kOther},     {"U32", 32, StoredType::kOther},
    {"I16", 16, StoredType::kOther},        {"U16", 16, StoredType::kOther},     {"I8", 8, StoredType::kOther},
    {"U8", 8, StoredType::kOther},          {"BOOL", 8, StoredType::kOther},     {"F8_E4M3", 8, StoredType::kOther},
    {"F8_E5M2", 8, StoredType::kOther},     {"F8_E8M0", 8, StoredType::kOther},  {"F8_E4M3FNUZ", 8, StoredType::kOther},
    {"F8_E5M2FNUZ", 8, StoredType::kOther}, {"F6_E2M3", 6, StoredType::kOther},  {"F6_E3M2", 6, StoredType::kOther},
    {"F4", 4, StoredType::kOther},
};

absl::Status FileError(const std::string& path, const std::string& message) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, message));
}

std::optional<uint64_t> Unsigned(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

// Fills `tensor` from its header entry; the returned text says what is wrong, empty when nothing is.
std::string ParseEntry(const json& entry, std::string_view data, StoredTensor& tensor) {
  if (!entry.is_object()) return "its header entry is not an object";
  const auto type = entry.find("dtype"), shape = entry.find("shape"), offsets = entry.find("data_offsets");
  if (type == entry.end() || !type->is_string()) return "dtype is missing";
  if (shape == entry.end() || !shape->is_array() || shape->size() > kMaxDims) return "shape is missing or too long";
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) return "data_offsets must be two numbers";

  tensor.type_name = type->get<std::string>();
  const auto info = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeInfo& known) { return tensor.type_name == known.name; });
  if (info == std::end(kTypes)) return fmt::format("unknown dtype {}", PrintableName(tensor.type_name));
  tensor.type = info->type;

  unsigned __int128 bits = info->bits;
  for (const json& dim : *shape) {
    const std::optional<uint64_t> extent = Unsigned(dim);
    if (!extent || *extent > INT64_MAX) return "a dimension is not a whole number";
    bits *= *extent;
    if (bits > UINT64_MAX / 2) return "its shape is larger than any file";
    tensor.dims.push_back(static_cast<int64_t>(*extent));
  }
  if (bits % 8 != 0) return "its shape does not fill whole bytes";
  const uint64_t size = static_cast<uint64_t>(bits / 8);
  const std::optional<uint64_t> begin = Unsigned((*offsets)[0]), end = Unsigned((*offsets)[1]);
  if (!begin || !end || *begin > *end) return "data_offsets are not two ascending numbers";
  if (*end > data.size()) {
    return fmt::format("its bytes end at {}, but the file holds only {} data bytes (truncated?)", *end, data.size());
  }
  if (*end - *begin != size) {
    return fmt::format("{} bytes do not fit dtype {} and shape {}, which need {}", *end - *begin, tensor.type_name,
                       shape->dump(), size);
  }
  tensor.bytes = data.data() + *begin;
  tensor.size = *end - *begin;
  return "";
}

// Ranges must tile the data exactly: no two tensors share bytes, none are left over.
absl::Status CheckTiling(const std::map<std::string, StoredTensor>& tensors, std::string_view data,
                         const std::string& path) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& named : tensors) order.push_back(&named);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.bytes, a->second.size) < std::pair(b->second.bytes, b->second.size);
  });
  const char* covered = data.data();
  for (const auto* named : order) {
    if (named->second.bytes < covered)
      return FileError(path, fmt::format("tensor {}: its bytes overlap another's", PrintableName(named->first)));
    if (named->second.bytes > covered)
      return FileError(path, fmt::format("tensor {}: unclaimed bytes before it", PrintableName(named->first)));
    covered = named->second.bytes + named->second.size;
  }
  if (covered != data.data() + data.size()) return FileError(path, "bytes after the last tensor");
  return absl::OkStatus();
}

void ReadElements(const StoredTensor& tensor, int64_t first, int64_t count, float* out) {
  const char* from = tensor.bytes + first * StoredTypeSize(tensor.type);
  if (tensor.type == StoredType::kFloat32) {
    std::memcpy(out, from, count * sizeof(float));
    return;
  }
  const bool is_bfloat16 = tensor.type == StoredType::kBFloat16;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;  // file offsets need not be aligned
    std::memcpy(&bits, from + 2 * i, 2);
    out[i] = is_bfloat16 ? BFloat16ToFloat(bits) : HalfToFloat(bits);
  }
}

}  // namespace

int64_t StoredTypeSize(StoredType type) { return type == StoredType::kFloat32 ? 4 : 2; }

absl::StatusOr<std::map<std::string, StoredTensor>> ParseSafetensors(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 8) return FileError(path, "too short for a safetensors file");
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > kMaxHeaderBytes || header_size > bytes.size() - 8) {
    return FileError(path, fmt::format("the header claims {} bytes; the file has {}, and headers of up to {} are read",
                                       header_size, bytes.size(), kMaxHeaderBytes));
  }
  const std::string_view header = bytes.substr(8, header_size), data = bytes.substr(8 + header_size);
  const absl::StatusOr<json> root = ParseUntrustedJson(header);
  if (!root.ok()) return FileError(path, fmt::format("header: {}", std::string(root.status().message())));
  if (!root->is_object()) return FileError(path, "the header is not a JSON object");

  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, entry] : root->items()) {
    if (name == "__metadata__") continue;
    const std::string problem = ParseEntry(entry, data, tensors[name]);
    if (!problem.empty()) return FileError(path, fmt::format("tensor {}: {}", PrintableName(name), problem));
  }
  QGPU_RETURN_IF_ERROR(CheckTiling(tensors, data, path));
  return tensors;
}

absl::StatusOr<std::unique_ptr<const SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  QGPU_ASSIGN_OR_RETURN(file->file_, MappedFile::Open(path));
  absl::StatusOr<std::map<std::string, StoredTensor>> tensors;
  QGPU_RETURN_IF_ERROR(file->file_->Read([&] { tensors = ParseSafetensors(file->file_->bytes(), path); }));
  QGPU_RETURN_IF_ERROR(tensors.status());
  file->tensors_ = *std::move(tensors);
  return file;
}

absl::Status SafetensorsFile::Read(const StoredTensor& tensor, int64_t first, int64_t count, float* out) const {
  return file_->Read([&] { ReadElements(tensor, first, count, out); });
}

std::string FileTensorName(const std::string& spec_name) {
  return spec_name == "lm_head.weight" ? spec_name : "model." + spec_name;
}

}  // namespace qgpu
