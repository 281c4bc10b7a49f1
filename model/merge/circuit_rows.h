// Where rows of a merged model's tensors come from: a circuit layer's sparse matrices scattered into dense rows, and a
// base layer's rows found again in the wider shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/model_shape.h"
#include "model/weights/circuit.h"

namespace qgpu {

// Rows [first, first + count) of a tensor with rows of `row_size` values, to be filled in.
struct RowWindow {
  int64_t first = 0, count = 0, row_size = 0;
  float* out = nullptr;  // [count * row_size]
};

// Puts the entries of `matrix` that fall into the window there, its element (r, c) at (row_offset + r, col_offset + c).
// Other values of the window are left alone.
void ScatterRows(const SparseMatrix& matrix, int64_t row_offset, int64_t col_offset, const RowWindow& window);

struct CircuitLayout {
  int64_t hidden_offset = 0;  // residual dimension of the circuit's dimension 0
  int64_t heads = 0;          // of the tensors; at least the layer's own
};

// A tensor of a compiled layer by its name within the layer ("mlp.up_proj.weight"); padding heads, neurons and
// dimensions are 0, norms of dimensions before the offset multiply by 0.
void ReadCircuitRows(const CircuitLayer& layer, const CircuitLayout& layout, const std::string& name,
                     const RowWindow& window);

// What a tensor of a base layer does to the residual, which decides how it is rescaled.
enum class ResidualRole {
  kNone,
  kInputNorm,
  kPostNorm,    // 1 + w is multiplied
  kReadsInput,  // a projection of the first norm's output
  kReadsPost,   // of the second's
  kWrites,      // added to the residual
};

// How a tensor of a base layer lies in the merged shape: which base row a merged row is, and what it does.
struct BaseRowMap {
  std::vector<int64_t> base_dims;
  std::vector<int64_t> base_row;  // by merged row; -1 for a row of padding; rows beyond the end are padding as well
  float fill = 0;                 // padding
  ResidualRole role = ResidualRole::kNone;

  int64_t BaseRow(int64_t row) const { return row < static_cast<int64_t>(base_row.size()) ? base_row[row] : -1; }
};
// `heads`: linear heads of the merged layer, at least the base's value heads; each has a key of its own.
BaseRowMap MapBaseRows(const ModelShape& base, int64_t heads, const std::string& name);

}  // namespace qgpu
