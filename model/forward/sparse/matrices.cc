#include "model/forward/sparse/matrices.h"

#include <algorithm>
#include <bit>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace qgpu::sparse {
namespace {

// A column with more than one weight in kDenseRatio rows is stored in full: adding it is then a plain vector loop.
constexpr size_t kDenseRatio = 6;

void AddDense(const uint16_t* __restrict weights, float x, float* __restrict y, int count) {
  for (int i = 0; i < count; ++i) y[i] += FromBFloat16(weights[i]) * x;
}

void AddRun(const uint16_t* __restrict index, uint32_t count, float value, float* __restrict y) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    y[index[i]] += value;
    y[index[i + 1]] += value;
    y[index[i + 2]] += value;
    y[index[i + 3]] += value;
  }
  for (; i < count; ++i) y[index[i]] += value;
}

#if defined(__SSE2__)
// Compares 16 values at a time and turns the outcome into bits.
template <typename Compare, typename Scalar>
int Collect(const float* values, int count, uint16_t* out, Compare compare, Scalar scalar) {
  int found = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    uint32_t bits = 0;
    for (int part = 0; part < 4; ++part) {
      bits |= static_cast<uint32_t>(_mm_movemask_ps(compare(_mm_loadu_ps(values + i + 4 * part)))) << 4 * part;
    }
    for (; bits != 0; bits &= bits - 1) out[found++] = static_cast<uint16_t>(i + std::countr_zero(bits));
  }
  for (; i < count; ++i) {
    if (scalar(values[i])) out[found++] = static_cast<uint16_t>(i);
  }
  return found;
}
#else
template <typename Scalar>
int Collect(const float* values, int count, uint16_t* out, Scalar scalar) {
  int found = 0;
  for (int i = 0; i < count; ++i) {
    out[found] = static_cast<uint16_t>(i);
    found += scalar(values[i]);
  }
  return found;
}
#endif

}  // namespace

ColumnMatrix::ColumnMatrix(const std::vector<const SparseMatrix*>& parts) {
  struct Entry {
    float weight;
    uint16_t row;
  };
  columns_.resize(parts.front()->cols);
  std::vector<std::vector<Entry>> entries(columns_.size());
  for (const SparseMatrix* part : parts) {
    for (size_t i = 0; i < part->nonzeros(); ++i) {
      entries[part->col[i]].push_back({part->value[i], static_cast<uint16_t>(rows_ + part->row[i])});
    }
    rows_ += part->rows;
  }
  for (size_t col = 0; col < columns_.size(); ++col) {
    Column& column = columns_[col];
    column.first_run = column.last_run = static_cast<uint32_t>(runs_.size());
    if (entries[col].size() * kDenseRatio > static_cast<size_t>(rows_)) {
      column.dense = true;
      column.dense_at = dense_.size();
      dense_.resize(dense_.size() + rows_);
      for (const Entry& entry : entries[col]) dense_[column.dense_at + entry.row] = ToBFloat16(entry.weight);
      continue;
    }
    std::stable_sort(entries[col].begin(), entries[col].end(),
                     [](const Entry& a, const Entry& b) { return a.weight < b.weight; });
    for (const Entry& entry : entries[col]) {
      const uint32_t at = static_cast<uint32_t>(index_.size());
      if (runs_.size() == column.first_run || runs_.back().weight != entry.weight) {
        runs_.push_back({entry.weight, at, at});
      }
      index_.push_back(entry.row);
      ++runs_.back().end;
    }
    column.last_run = static_cast<uint32_t>(runs_.size());
  }
}

void ColumnMatrix::AddColumn(int col, float x, float* y) const {
  const Column& column = columns_[col];
  if (column.dense) {
    AddDense(dense_.data() + column.dense_at, x, y, rows_);
    return;
  }
  for (uint32_t i = column.first_run; i < column.last_run; ++i) {
    const Run& run = runs_[i];
    AddRun(index_.data() + run.begin, run.end - run.begin, run.weight * x, y);
  }
}

LineMatrix::LineMatrix(const SparseMatrix& matrix, Lines lines) {
  const bool by_row = lines == Lines::kRows;
  const std::vector<int32_t>& line = by_row ? matrix.row : matrix.col;
  const std::vector<int32_t>& place = by_row ? matrix.col : matrix.row;
  begin_.assign(static_cast<size_t>(by_row ? matrix.rows : matrix.cols) + 1, 0);
  for (int32_t l : line) ++begin_[l + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  entries_.resize(matrix.nonzeros());
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < matrix.nonzeros(); ++i) {
    entries_[next[line[i]]++] = {static_cast<uint16_t>(place[i]), ToBFloat16(matrix.value[i])};
  }
}

int CollectAbove(const float* values, int count, float threshold, uint16_t* out) {
  const auto scalar = [threshold](float value) { return !(value <= threshold); };
#if defined(__SSE2__)
  const __m128 limit = _mm_set1_ps(threshold);
  return Collect(values, count, out, [limit](__m128 four) { return _mm_cmpnle_ps(four, limit); }, scalar);
#else
  return Collect(values, count, out, scalar);
#endif
}

int CollectNonzero(const float* values, int count, uint16_t* out) {
  const auto scalar = [](float value) { return value != 0; };
#if defined(__SSE2__)
  const __m128 zero = _mm_setzero_ps();
  return Collect(values, count, out, [zero](__m128 four) { return _mm_cmpneq_ps(four, zero); }, scalar);
#else
  return Collect(values, count, out, scalar);
#endif
}

float SumOfSquares(const float* values, int count) {
  constexpr int kLanes = 16;
  float partial[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] += values[i + lane] * values[i + lane];
  }
  for (; i < count; ++i) partial[i % kLanes] += values[i] * values[i];
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) partial[lane] += partial[lane + step];
  }
  return partial[0];
}

}  // namespace qgpu::sparse
