// Sparse matrices in the three arrangements that the forward pass needs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/forward/sparse/kernels.h"
#include "model/forward/sparse/rounding.h"
#include "model/weights/circuit.h"

namespace qgpu::sparse {

// Stored by columns. Within a column, blocks of 64 rows that are well filled are written out in full, so that adding
// them is a plain vector loop; other weights are listed one by one. For y += M x with many zeros in x.
class ColumnMatrix {
 public:
  ColumnMatrix() = default;
  explicit ColumnMatrix(const SparseMatrix& matrix);

  // Rows, rounded up to whole blocks: the room that y needs.
  int padded_rows() const { return padded_rows_; }
  // y[0 .. padded_rows) += column * x
  void AddColumn(int col, float x, float* y) const;

 private:
  struct Entry {
    uint16_t row, weight;  // bfloat16
  };
  int padded_rows_ = 0;
  std::vector<uint32_t> first_block_, first_entry_;  // [cols + 1]
  std::vector<DenseBlock> blocks_;
  std::vector<Entry> entries_;
  std::vector<uint16_t> dense_;  // bfloat16, 64 a block
};

// The rows of a matrix, grouped by what they have in common: rows that differ in well filled columns only (the constant
// dimensions, that is, their thresholds) share one sum over all other columns. Rows are renumbered by that: `order`.
class GroupedRows {
 public:
  explicit GroupedRows(const SparseMatrix& matrix);

  int rows() const { return rows_; }
  // Room that `sums` and `shared` need.
  int padded_rows() const { return own_.padded_rows(); }
  int padded_groups() const { return shared_.padded_rows(); }
  // order()[i] is the matrix row that became row i.
  const std::vector<int32_t>& order() const { return order_; }
  // sums[i] = row order()[i] times x, of which active[0 .. count) are the non-zero places. `shared` is scratch.
  void Multiply(const float* x, const uint16_t* active, int count, float* shared, float* sums) const;

 private:
  void Number(const std::vector<std::vector<int32_t>>& groups);

  int rows_ = 0;
  std::vector<int32_t> order_;
  std::vector<int32_t> level_size_;  // level l holds the l-th row of groups 0 .. level_size_[l] - 1
  std::vector<uint8_t> column_is_own_;
  ColumnMatrix shared_, own_;
};

// Stored by lines (rows of M, or its columns), each a list of places and bfloat16 weights. For the few lines that an
// active neuron or value needs.
class LineMatrix {
 public:
  enum class Lines { kRows, kColumns };
  LineMatrix(const SparseMatrix& matrix, Lines lines);
  // Line i becomes what line order[i] was.
  void Reorder(const std::vector<int32_t>& order);

  // The sum over the line of weight * x[place].
  float Dot(int line, const float* x) const {
    const Line& l = lines_[line];
    float sum = FromBFloat16(l.first.weight) * x[l.first.place];
    for (uint32_t i = l.begin; i < l.end; ++i) sum += FromBFloat16(rest_[i].weight) * x[rest_[i].place];
    return sum;
  }
  // y[place] += weight * x for all of the line.
  void Scatter(int line, float x, float* y) const {
    const Line& l = lines_[line];
    y[l.first.place] += FromBFloat16(l.first.weight) * x;
    for (uint32_t i = l.begin; i < l.end; ++i) y[rest_[i].place] += FromBFloat16(rest_[i].weight) * x;
  }

 private:
  struct Entry {
    uint16_t place = 0, weight = 0;
  };
  // Most lines have one weight; it lies in the line itself. An empty line has weight 0 there.
  struct Line {
    Entry first;
    uint32_t begin = 0, end = 0;  // of the others, in rest_
  };
  std::vector<Line> lines_;
  std::vector<Entry> rest_;
};

// The first linear layers of a mixer below each other in one matrix. Heads often share a query, key, value or gate
// (four ports of one memory write the same word): equal blocks of 128 rows are stored and computed once.
class MixerRows {
 public:
  explicit MixerRows(const CircuitLayer& layer);

  int padded_rows() const { return columns_.padded_rows(); }
  // sums[0 .. padded_rows) = all rows times x, of which active[0 .. count) are the non-zero places.
  void Multiply(const float* x, const uint16_t* active, int count, float* sums) const;
  // Where a head's 128 sums (or its one sum) begin.
  struct Places {
    int q, k, v, z, b, a;
  };
  const Places& places(int head) const { return places_[head]; }

 private:
  std::vector<Places> places_;
  ColumnMatrix columns_;
};

}  // namespace qgpu::sparse
