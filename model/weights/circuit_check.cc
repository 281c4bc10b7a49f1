// ValidateCircuit: the promises of circuit.h, one function for each part.
#include <bit>
#include <cmath>
#include <set>

#include "model/weights/circuit_tensors.h"

namespace qgpu {
namespace {

absl::Status CheckRange(const std::string& what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: {} is not in {} to {}", what, value, low, high));
}

absl::Status CheckShape(const Circuit& circuit) {
  using Limits = CircuitFileLimits;
  QGPU_RETURN_IF_ERROR(CheckRange("base_hidden", circuit.base_hidden, 0, Limits::base_hidden));
  QGPU_RETURN_IF_ERROR(CheckRange("width", circuit.width, 1, Limits::width));
  QGPU_RETURN_IF_ERROR(CheckRange("norm_log2", circuit.norm_log2, 0, 16));
  QGPU_RETURN_IF_ERROR(CheckRange("text_flag_dimension", circuit.text_flag_dimension, 0, circuit.width - 1));
  QGPU_RETURN_IF_ERROR(CheckRange("layers", static_cast<int64_t>(circuit.layers.size()), 1, Limits::layers));
  QGPU_RETURN_IF_ERROR(CheckRange("embedding rows", circuit.embedding.rows, 1, Limits::machine_ids));
  if (!std::isfinite(circuit.norm_eps) || circuit.norm_eps <= 0) {
    return absl::InvalidArgumentError(fmt::format("norm_eps: {} is not a positive number", circuit.norm_eps));
  }
  for (size_t i = 0; i < circuit.layers.size(); ++i) {
    QGPU_RETURN_IF_ERROR(CheckRange(fmt::format("layers.{}.heads", i), circuit.layers[i].heads, 0, Limits::heads));
    QGPU_RETURN_IF_ERROR(
        CheckRange(fmt::format("layers.{}.neurons", i), circuit.layers[i].neurons, 0, Limits::neurons));
  }
  return absl::OkStatus();
}

absl::Status CheckDense(const TensorRef<const Circuit>& tensor) {
  const std::vector<float>& values = *tensor.dense;
  if (values.size() != static_cast<size_t>(tensor.rows)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} values, expected {}", tensor.name, values.size(), tensor.rows));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(fmt::format("{}: value {} is not finite", tensor.name, i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSparse(const TensorRef<const Circuit>& tensor) {
  const SparseMatrix& matrix = *tensor.sparse;
  const auto fail = [&](size_t i, const char* what) {
    return absl::InvalidArgumentError(fmt::format("{}: weight {} {}", tensor.name, i, what));
  };
  if (matrix.rows != tensor.rows || matrix.cols != tensor.cols) {
    return absl::InvalidArgumentError(fmt::format("{}: shape {} x {}, expected {} x {}", tensor.name, matrix.rows,
                                                  matrix.cols, tensor.rows, tensor.cols));
  }
  if (matrix.row.size() != matrix.value.size() || matrix.col.size() != matrix.value.size()) {
    return absl::InvalidArgumentError(fmt::format("{}: {} rows, {} columns and {} values", tensor.name,
                                                  matrix.row.size(), matrix.col.size(), matrix.value.size()));
  }
  QGPU_RETURN_IF_ERROR(CheckRange(tensor.name + ": non-zero weights", static_cast<int64_t>(matrix.nonzeros()), 0,
                                  CircuitFileLimits::nonzeros));
  for (size_t i = 0; i < matrix.nonzeros(); ++i) {
    if (matrix.row[i] < 0 || matrix.row[i] >= matrix.rows) return fail(i, "has a row out of range");
    if (matrix.col[i] < 0 || matrix.col[i] >= matrix.cols) return fail(i, "has a column out of range");
    if (i > 0 && (matrix.row[i] < matrix.row[i - 1] ||
                  (matrix.row[i] == matrix.row[i - 1] && matrix.col[i] <= matrix.col[i - 1]))) {
      return fail(i, "is not after the one before it by row and column");
    }
    if (!std::isfinite(matrix.value[i])) return fail(i, "is not finite");
    if (matrix.value[i] == 0) return fail(i, "is zero");
    if (std::bit_cast<uint32_t>(matrix.value[i]) & 0xffff) return fail(i, "is not exact in bfloat16");
  }
  return absl::OkStatus();
}

absl::Status CheckCell(const Circuit& circuit, const std::string& name, const CellBank& bank) {
  const std::string where = fmt::format("cells.{}", name);
  QGPU_RETURN_IF_ERROR(CheckRange(where + ".layer", bank.layer, 0, static_cast<int64_t>(circuit.layers.size()) - 1));
  QGPU_RETURN_IF_ERROR(CheckRange(where + ".head", bank.head, 0, circuit.layers[bank.layer].heads - 1));
  QGPU_RETURN_IF_ERROR(CheckRange(where + ".first_row", bank.first_row, 0, kHeadDim - 1));
  QGPU_RETURN_IF_ERROR(CheckRange(where + ".rows", bank.rows, 1, kHeadDim - bank.first_row));
  QGPU_RETURN_IF_ERROR(CheckRange(where + ".dims", static_cast<int64_t>(bank.dims.size()), 1, kHeadDim / 2));
  std::set<int32_t> seen;
  for (int32_t dim : bank.dims) {
    QGPU_RETURN_IF_ERROR(CheckRange(where + ".dims", dim, 0, kHeadDim / 2 - 1));
    if (!seen.insert(dim).second) {
      return absl::InvalidArgumentError(fmt::format("{}.dims: dimension {} twice", where, dim));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGeometry(const MachineGeometry& geometry) {
  constexpr int64_t kMost = 1 << 20;
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.lanes", geometry.lanes, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.registers", geometry.registers, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.warps", geometry.warps, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.slots", geometry.slots, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.blocks", geometry.blocks, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.predicates", geometry.predicates, 1, kMost));
  QGPU_RETURN_IF_ERROR(CheckRange("geometry.memory_words", geometry.memory_words, 1, kMost));
  return CheckRange("geometry.parameter_words", geometry.parameter_words, 0, kMost);
}

}  // namespace

absl::Status ValidateCircuit(const Circuit& circuit) {
  QGPU_RETURN_IF_ERROR(CheckShape(circuit));
  QGPU_RETURN_IF_ERROR(CheckGeometry(circuit.geometry));
  for (const TensorRef<const Circuit>& tensor : CircuitTensors(circuit, circuit.embedding.rows)) {
    QGPU_RETURN_IF_ERROR(tensor.sparse != nullptr ? CheckSparse(tensor) : CheckDense(tensor));
  }
  for (const auto& [name, bank] : circuit.cells) QGPU_RETURN_IF_ERROR(CheckCell(circuit, name, bank));
  return absl::OkStatus();
}

}  // namespace qgpu
