// Sparse matrices in the three arrangements that the forward pass needs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/forward/sparse/rounding.h"
#include "model/weights/circuit.h"

namespace qgpu::sparse {

// Stored by columns, each split into runs of equal weights (most weights of a column are alike, so that a weight costs
// two bytes), or written out in full where it is dense. For y += M x with many zeros in x.
class ColumnMatrix {
 public:
  // Places `parts` below each other: row r of parts[i] becomes row r + (rows of the parts before).
  explicit ColumnMatrix(const std::vector<const SparseMatrix*>& parts);

  int rows() const { return rows_; }
  bool IsEmpty(int col) const { return columns_[col].first_run == columns_[col].last_run && !columns_[col].dense; }
  // y[0 .. rows) += column * x
  void AddColumn(int col, float x, float* y) const;

 private:
  struct Run {
    float weight;
    uint32_t begin, end;  // in index_
  };
  struct Column {
    uint32_t first_run = 0, last_run = 0;
    bool dense = false;
    size_t dense_at = 0;  // in dense_
  };
  int rows_ = 0;
  std::vector<Column> columns_;
  std::vector<Run> runs_;
  std::vector<uint16_t> index_;
  std::vector<uint16_t> dense_;  // bfloat16, rows_ a column
};

// Stored by lines (rows of M, or its columns), each a list of places and bfloat16 weights. For the few lines that an
// active neuron or value needs.
class LineMatrix {
 public:
  enum class Lines { kRows, kColumns };
  LineMatrix(const SparseMatrix& matrix, Lines lines);

  // The sum over the line of weight * x[place].
  float Dot(int line, const float* x) const {
    float sum = 0;
    for (uint32_t i = begin_[line]; i < begin_[line + 1]; ++i)
      sum += FromBFloat16(entries_[i].weight) * x[entries_[i].place];
    return sum;
  }
  // y[place] += weight * x for all of the line.
  void Scatter(int line, float x, float* y) const {
    for (uint32_t i = begin_[line]; i < begin_[line + 1]; ++i)
      y[entries_[i].place] += FromBFloat16(entries_[i].weight) * x;
  }

 private:
  struct Entry {
    uint16_t place, weight;
  };
  std::vector<uint32_t> begin_;
  std::vector<Entry> entries_;
};

// Writes the indices i of values[0 .. count) with values[i] > threshold, ascending; returns how many. NaN counts as
// above. `out` has room for count.
int CollectAbove(const float* values, int count, float threshold, uint16_t* out);
// The same for values[i] != 0.
int CollectNonzero(const float* values, int count, uint16_t* out);
// Sum of squares, in 16 interleaved partial sums.
float SumOfSquares(const float* values, int count);

}  // namespace qgpu::sparse
