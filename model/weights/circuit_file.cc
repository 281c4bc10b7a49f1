// The circuit file (docs/formats/circuit.md): a fixed preamble, a JSON header that names every tensor with its shape,
// place and SHA-256, and the tensors' bytes. Nothing that is read is trusted before it is checked.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/sha256.h"
#include "model/weights/circuit_tensors.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;

constexpr char kMagic[9] = "qgpucirc";
// magic 8 | version 4 | header size 4 | SHA-256 of the header, hexadecimal 64
constexpr size_t kVersionAt = 8, kHeaderSizeAt = 12, kHeaderSumAt = 16, kPreamble = 80;
constexpr size_t kPayloadAlignment = 16;
constexpr size_t kMaxHeader = size_t{16} << 20;

void Put16(std::string& out, uint32_t value) {
  out.push_back(static_cast<char>(value & 255));
  out.push_back(static_cast<char>(value >> 8 & 255));
}

void Put32(std::string& out, uint32_t value) {
  Put16(out, value & 0xffff);
  Put16(out, value >> 16);
}

uint32_t Get16(const char* at) {
  return static_cast<uint32_t>(static_cast<unsigned char>(at[0])) |
         static_cast<uint32_t>(static_cast<unsigned char>(at[1])) << 8;
}

uint32_t Get32(const char* at) { return Get16(at) | Get16(at + 2) << 16; }

size_t SparseBytes(size_t rows, size_t nonzeros) { return rows * 4 + nonzeros * 4; }

// Row ends (u32 each), then columns (u16), then bfloat16 values (u16).
std::string EncodeSparse(const SparseMatrix& matrix) {
  std::string out;
  out.reserve(SparseBytes(matrix.rows, matrix.nonzeros()));
  size_t end = 0;
  for (int32_t row = 0; row < matrix.rows; ++row) {
    while (end < matrix.nonzeros() && matrix.row[end] == row) ++end;
    Put32(out, static_cast<uint32_t>(end));
  }
  for (int32_t col : matrix.col) Put16(out, static_cast<uint32_t>(col));
  for (float value : matrix.value) Put16(out, std::bit_cast<uint32_t>(value) >> 16);
  return out;
}

std::string EncodeDense(const std::vector<float>& values) {
  std::string out;
  for (float value : values) Put32(out, std::bit_cast<uint32_t>(value));
  return out;
}

// `bytes` has SparseBytes(rows, nonzeros) bytes. Columns and values are checked by ValidateCircuit afterwards.
absl::Status DecodeSparse(const std::string& name, const char* bytes, int32_t rows, int32_t cols, size_t nonzeros,
                          SparseMatrix& matrix) {
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row.resize(nonzeros);
  matrix.col.resize(nonzeros);
  matrix.value.resize(nonzeros);
  size_t begin = 0;
  for (int32_t row = 0; row < rows; ++row) {
    const size_t end = Get32(bytes + size_t{4} * row);
    if (end < begin || end > nonzeros) {
      return absl::InvalidArgumentError(
          fmt::format("{}: row {} ends at weight {}, after {} of {}", name, row, end, begin, nonzeros));
    }
    std::fill(matrix.row.begin() + begin, matrix.row.begin() + end, row);
    begin = end;
  }
  if (begin != nonzeros) {
    return absl::InvalidArgumentError(fmt::format("{}: rows hold {} of {} weights", name, begin, nonzeros));
  }
  const char* col = bytes + size_t{4} * rows;
  const char* value = col + 2 * nonzeros;
  for (size_t i = 0; i < nonzeros; ++i) {
    matrix.col[i] = static_cast<int32_t>(Get16(col + 2 * i));
    matrix.value[i] = std::bit_cast<float>(Get16(value + 2 * i) << 16);
  }
  return absl::OkStatus();
}

json GeometryToJson(const MachineGeometry& g) {
  return {{"lanes", g.lanes},
          {"registers", g.registers},
          {"warps", g.warps},
          {"slots", g.slots},
          {"blocks", g.blocks},
          {"predicates", g.predicates},
          {"memory_words", g.memory_words},
          {"parameter_words", g.parameter_words}};
}

json MakeHeader(const Circuit& circuit, std::string& payload) {
  json header;
  header["geometry"] = GeometryToJson(circuit.geometry);
  header["base_hidden"] = circuit.base_hidden;
  header["width"] = circuit.width;
  header["norm_log2"] = circuit.norm_log2;
  header["norm_eps"] = static_cast<double>(circuit.norm_eps);
  header["machine_ids"] = circuit.embedding.rows;
  header["text_flag_dimension"] = circuit.text_flag_dimension;
  header["notes"] = circuit.notes;
  header["layers"] = json::array();
  for (const CircuitLayer& layer : circuit.layers) {
    header["layers"].push_back({{"heads", layer.heads}, {"neurons", layer.neurons}});
  }
  header["cells"] = json::object();
  for (const auto& [name, bank] : circuit.cells) {
    header["cells"][name] = {{"layer", bank.layer},
                             {"head", bank.head},
                             {"first_row", bank.first_row},
                             {"rows", bank.rows},
                             {"dims", bank.dims}};
  }
  header["tensors"] = json::array();
  for (const TensorRef<const Circuit>& tensor : CircuitTensors(circuit, circuit.embedding.rows)) {
    const std::string bytes = tensor.sparse ? EncodeSparse(*tensor.sparse) : EncodeDense(*tensor.dense);
    json entry = {{"name", tensor.name},        {"offset", payload.size()}, {"bytes", bytes.size()},
                  {"sha256", Sha256Hex(bytes)}, {"rows", tensor.rows},      {"cols", tensor.cols}};
    if (tensor.sparse) entry["nonzeros"] = tensor.sparse->nonzeros();
    header["tensors"].push_back(std::move(entry));
    payload += bytes;
  }
  return header;
}

absl::Status BadHeader(const std::string& what) { return absl::InvalidArgumentError("circuit file header: " + what); }

// The integer member `key` of `object`, in low .. high.
absl::StatusOr<int64_t> GetInteger(const json& object, const char* key, int64_t low, int64_t high) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || it == object.end()) return BadHeader(fmt::format("{} is missing", key));
  if (!it->is_number_integer() || (it->is_number_unsigned() && it->get<uint64_t>() > INT64_MAX)) {
    return BadHeader(fmt::format("{} is not an integer", key));
  }
  const int64_t value = it->get<int64_t>();
  if (value < low || value > high) {
    return BadHeader(fmt::format("{} is {}, not in {} to {}", key, value, low, high));
  }
  return value;
}

absl::Status ReadInteger(const json& object, const char* key, int32_t& out) {
  QGPU_ASSIGN_OR_RETURN(const int64_t value, GetInteger(object, key, 0, INT32_MAX));
  out = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> GetString(const json& object, const char* key) {
  if (object.is_object() && object.contains(key) && object[key].is_string()) return object[key].get<std::string>();
  return BadHeader(fmt::format("{} is missing or no text", key));
}

absl::StatusOr<json> GetMember(const json& object, const char* key, json::value_t type) {
  if (object.is_object() && object.contains(key) && object[key].type() == type) return object[key];
  return BadHeader(fmt::format("{} is missing or of another type", key));
}

absl::Status ReadGeometry(const json& header, MachineGeometry& geometry) {
  QGPU_ASSIGN_OR_RETURN(const json object, GetMember(header, "geometry", json::value_t::object));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "lanes", geometry.lanes));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "registers", geometry.registers));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "warps", geometry.warps));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "slots", geometry.slots));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "blocks", geometry.blocks));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "predicates", geometry.predicates));
  QGPU_RETURN_IF_ERROR(ReadInteger(object, "memory_words", geometry.memory_words));
  return ReadInteger(object, "parameter_words", geometry.parameter_words);
}

absl::Status ReadCells(const json& header, Circuit& circuit) {
  QGPU_ASSIGN_OR_RETURN(const json cells, GetMember(header, "cells", json::value_t::object));
  for (const auto& [name, object] : cells.items()) {
    CellBank bank;
    QGPU_RETURN_IF_ERROR(ReadInteger(object, "layer", bank.layer));
    QGPU_RETURN_IF_ERROR(ReadInteger(object, "head", bank.head));
    QGPU_RETURN_IF_ERROR(ReadInteger(object, "first_row", bank.first_row));
    QGPU_RETURN_IF_ERROR(ReadInteger(object, "rows", bank.rows));
    QGPU_ASSIGN_OR_RETURN(const json dims, GetMember(object, "dims", json::value_t::array));
    for (const json& dim : dims) {
      QGPU_ASSIGN_OR_RETURN(const int64_t value, GetInteger(json{{"dims", dim}}, "dims", 0, kHeadDim - 1));
      bank.dims.push_back(static_cast<int32_t>(value));
    }
    circuit.cells[name] = std::move(bank);
  }
  return absl::OkStatus();
}

// Everything but the tensors; the shapes of those follow from it. Leaves indices and the other limits to
// ValidateCircuit.
absl::Status ReadShape(const json& header, Circuit& circuit) {
  using Limits = CircuitFileLimits;
  circuit.format_version = kCircuitFormatVersion;
  QGPU_RETURN_IF_ERROR(ReadGeometry(header, circuit.geometry));
  QGPU_RETURN_IF_ERROR(ReadInteger(header, "base_hidden", circuit.base_hidden));
  QGPU_RETURN_IF_ERROR(ReadInteger(header, "norm_log2", circuit.norm_log2));
  QGPU_RETURN_IF_ERROR(ReadInteger(header, "text_flag_dimension", circuit.text_flag_dimension));
  QGPU_ASSIGN_OR_RETURN(const int64_t width, GetInteger(header, "width", 1, Limits::width));
  circuit.width = static_cast<int32_t>(width);
  if (!header.contains("norm_eps") || !header["norm_eps"].is_number()) return BadHeader("norm_eps is not a number");
  circuit.norm_eps = static_cast<float>(header["norm_eps"].get<double>());
  QGPU_ASSIGN_OR_RETURN(const json layers, GetMember(header, "layers", json::value_t::array));
  if (layers.empty() || layers.size() > Limits::layers) {
    return BadHeader(fmt::format("{} layers, not 1 to {}", layers.size(), Limits::layers));
  }
  for (const json& object : layers) {
    CircuitLayer layer;
    QGPU_ASSIGN_OR_RETURN(const int64_t heads, GetInteger(object, "heads", 0, Limits::heads));
    QGPU_ASSIGN_OR_RETURN(const int64_t neurons, GetInteger(object, "neurons", 0, Limits::neurons));
    layer.heads = static_cast<int32_t>(heads);
    layer.neurons = static_cast<int32_t>(neurons);
    circuit.layers.push_back(std::move(layer));
  }
  QGPU_ASSIGN_OR_RETURN(const json notes, GetMember(header, "notes", json::value_t::object));
  for (const auto& [name, text] : notes.items()) {
    if (!text.is_string()) return BadHeader(fmt::format("notes.{} is no text", name));
    circuit.notes[name] = text.get<std::string>();
  }
  return ReadCells(header, circuit);
}

// Reads one tensor from its entry; `offset` is where the one before it ended, and becomes where this one ends.
absl::Status ReadTensor(const json& entry, const TensorRef<Circuit>& tensor, const char* payload, size_t payload_size,
                        size_t& offset) {
  const auto fail = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", tensor.name, what));
  };
  QGPU_ASSIGN_OR_RETURN(const std::string name, GetString(entry, "name"));
  if (name != tensor.name) return BadHeader(fmt::format("tensor {} where {} is due", name, tensor.name));
  QGPU_ASSIGN_OR_RETURN(const int64_t rows, GetInteger(entry, "rows", 0, INT32_MAX));
  QGPU_ASSIGN_OR_RETURN(const int64_t cols, GetInteger(entry, "cols", 0, INT32_MAX));
  if (rows != tensor.rows || cols != tensor.cols) {
    return fail(fmt::format("shape {} x {}, expected {} x {}", rows, cols, tensor.rows, tensor.cols));
  }
  int64_t nonzeros = 0;
  size_t expected = size_t{4} * static_cast<size_t>(tensor.rows);
  if (tensor.sparse) {
    QGPU_ASSIGN_OR_RETURN(nonzeros, GetInteger(entry, "nonzeros", 0, CircuitFileLimits::nonzeros));
    expected = SparseBytes(static_cast<size_t>(rows), static_cast<size_t>(nonzeros));
  }
  QGPU_ASSIGN_OR_RETURN(const int64_t at, GetInteger(entry, "offset", 0, INT64_MAX));
  QGPU_ASSIGN_OR_RETURN(const int64_t bytes, GetInteger(entry, "bytes", 0, INT64_MAX));
  if (static_cast<uint64_t>(at) != offset) {
    return fail(fmt::format("starts at byte {} of the payload, but the tensor before it ends at {}", at, offset));
  }
  if (static_cast<uint64_t>(bytes) != expected) {
    return fail(fmt::format("{} bytes declared, its shape needs {}", bytes, expected));
  }
  if (expected > payload_size - offset) {
    return fail(fmt::format("needs payload bytes {} to {}, the file has {}", offset, offset + expected, payload_size));
  }
  const char* data = payload + offset;
  offset += expected;
  QGPU_ASSIGN_OR_RETURN(const std::string sum, GetString(entry, "sha256"));
  if (sum != Sha256Hex(data, expected)) return fail("checksum mismatch");
  if (tensor.sparse) {
    return DecodeSparse(tensor.name, data, tensor.rows, tensor.cols, static_cast<size_t>(nonzeros), *tensor.sparse);
  }
  tensor.dense->resize(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) (*tensor.dense)[i] = std::bit_cast<float>(Get32(data + 4 * i));
  return absl::OkStatus();
}

// The header as JSON, once preamble, version and checksum are found right; `payload_at` is where the tensors start.
absl::StatusOr<json> ReadHeader(const std::string& bytes, size_t& payload_at) {
  if (bytes.size() < kPreamble || bytes.compare(0, 8, kMagic) != 0) {
    return absl::InvalidArgumentError("not a circuit file (it does not start with \"qgpucirc\")");
  }
  const uint32_t version = Get32(bytes.data() + kVersionAt);
  if (version != static_cast<uint32_t>(kCircuitFormatVersion)) {
    return absl::FailedPreconditionError(
        fmt::format("circuit file of format version {}, this program reads version {}: write it anew with `qgpu build`",
                    version, kCircuitFormatVersion));
  }
  const size_t size = Get32(bytes.data() + kHeaderSizeAt);
  if (size > kMaxHeader || size > bytes.size() - kPreamble) {
    return BadHeader(fmt::format("{} bytes declared, the file has {}", size, bytes.size() - kPreamble));
  }
  if (bytes.compare(kHeaderSumAt, 64, Sha256Hex(bytes.data() + kPreamble, size)) != 0) {
    return BadHeader("checksum mismatch");
  }
  json header = json::parse(bytes.data() + kPreamble, bytes.data() + kPreamble + size, nullptr, false);
  if (!header.is_object()) return BadHeader("no JSON object");
  payload_at = kPreamble + size;
  return header;
}

}  // namespace

std::string SerializeCircuit(const Circuit& circuit) {
  if (const absl::Status status = ValidateCircuit(circuit); !status.ok()) {
    std::fprintf(stderr, "SerializeCircuit: %s\n", std::string(status.message()).c_str());
    std::abort();
  }
  std::string payload;
  const json header = MakeHeader(circuit, payload);
  std::string text = header.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  text.resize((kPreamble + text.size() + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment - kPreamble,
              ' ');
  std::string out = kMagic;
  Put32(out, static_cast<uint32_t>(kCircuitFormatVersion));
  Put32(out, static_cast<uint32_t>(text.size()));
  return out + Sha256Hex(text) + text + payload;
}

absl::StatusOr<Circuit> ParseCircuit(const std::string& bytes) {
  size_t payload_at = 0;
  QGPU_ASSIGN_OR_RETURN(const json header, ReadHeader(bytes, payload_at));
  Circuit circuit;
  QGPU_RETURN_IF_ERROR(ReadShape(header, circuit));
  QGPU_ASSIGN_OR_RETURN(const int64_t machine_ids,
                        GetInteger(header, "machine_ids", 1, CircuitFileLimits::machine_ids));
  QGPU_ASSIGN_OR_RETURN(const json entries, GetMember(header, "tensors", json::value_t::array));
  const std::vector<TensorRef<Circuit>> tensors = CircuitTensors(circuit, static_cast<int32_t>(machine_ids));
  if (entries.size() != tensors.size()) {
    return BadHeader(fmt::format("{} tensors, expected {}", entries.size(), tensors.size()));
  }
  const size_t payload_size = bytes.size() - payload_at;
  size_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    QGPU_RETURN_IF_ERROR(ReadTensor(entries[i], tensors[i], bytes.data() + payload_at, payload_size, offset));
  }
  if (offset != payload_size) {
    return absl::InvalidArgumentError(
        fmt::format("circuit file: {} bytes after the last tensor", payload_size - offset));
  }
  QGPU_RETURN_IF_ERROR(ValidateCircuit(circuit));
  return circuit;
}

std::string CircuitHash(const Circuit& circuit) { return Sha256Hex(SerializeCircuit(circuit)).substr(0, 16); }

}  // namespace qgpu
