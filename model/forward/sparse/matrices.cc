#include "model/forward/sparse/matrices.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

namespace qgpu::sparse {
namespace {

// A block with at least this many weights of its 64 is written out in full.
constexpr size_t kWellFilledBlock = 12;
// Columns with a weight in at least one of this many rows are left out when rows are compared (see GroupedRows).
constexpr size_t kWellFilledColumn = 6;
// Rows with nothing but thresholds are cut into groups of this size, so that no group needs levels for itself.
constexpr size_t kEmptyGroupRows = 8;

SparseMatrix FromTriples(int32_t rows, int32_t cols, std::vector<std::tuple<int32_t, int32_t, float>>& triples) {
  std::sort(triples.begin(), triples.end());
  SparseMatrix out;
  out.rows = rows;
  out.cols = cols;
  for (const auto& [row, col, value] : triples) {
    out.row.push_back(row);
    out.col.push_back(col);
    out.value.push_back(value);
  }
  return out;
}

}  // namespace

ColumnMatrix::ColumnMatrix(const SparseMatrix& matrix) {
  padded_rows_ = (matrix.rows + kBlockRows - 1) / kBlockRows * kBlockRows;
  std::vector<std::vector<Entry>> columns(matrix.cols);
  for (size_t i = 0; i < matrix.nonzeros(); ++i) {
    columns[matrix.col[i]].push_back({static_cast<uint16_t>(matrix.row[i]), ToBFloat16(matrix.value[i])});
  }
  for (const std::vector<Entry>& column : columns) {  // ascending by row
    first_block_.push_back(static_cast<uint32_t>(blocks_.size()));
    first_entry_.push_back(static_cast<uint32_t>(entries_.size()));
    for (size_t begin = 0, end = 0; begin < column.size(); begin = end) {
      const int block = column[begin].row / kBlockRows;
      while (end < column.size() && column[end].row / kBlockRows == block) ++end;
      if (end - begin < kWellFilledBlock) {
        entries_.insert(entries_.end(), column.begin() + begin, column.begin() + end);
        continue;
      }
      blocks_.push_back({static_cast<uint32_t>(block * kBlockRows), static_cast<uint32_t>(dense_.size())});
      dense_.resize(dense_.size() + kBlockRows);
      uint16_t* weights = dense_.data() + blocks_.back().at;
      for (size_t i = begin; i < end; ++i) weights[column[i].row % kBlockRows] = column[i].weight;
    }
  }
  first_block_.push_back(static_cast<uint32_t>(blocks_.size()));
  first_entry_.push_back(static_cast<uint32_t>(entries_.size()));
}

void ColumnMatrix::AddColumn(int col, float x, float* __restrict y) const {
  const int blocks = static_cast<int>(first_block_[col + 1] - first_block_[col]);
  if (blocks > 0) AddBlocks(blocks_.data() + first_block_[col], blocks, dense_.data(), x, y);
  for (uint32_t i = first_entry_[col]; i < first_entry_[col + 1]; ++i) {
    y[entries_[i].row] += FromBFloat16(entries_[i].weight) * x;
  }
}

GroupedRows::GroupedRows(const SparseMatrix& matrix) : rows_(matrix.rows), column_is_own_(matrix.cols) {
  std::vector<size_t> filled(matrix.cols);
  for (const int32_t col : matrix.col) ++filled[col];
  for (int32_t col = 0; col < matrix.cols; ++col) {
    column_is_own_[col] = filled[col] * kWellFilledColumn >= static_cast<size_t>(matrix.rows);
  }
  std::map<std::vector<std::pair<int32_t, float>>, std::vector<int32_t>> by_pattern;
  for (size_t i = 0, row = 0; row < static_cast<size_t>(matrix.rows); ++row) {
    std::vector<std::pair<int32_t, float>> pattern;
    for (; i < matrix.nonzeros() && matrix.row[i] == static_cast<int32_t>(row); ++i) {
      if (!column_is_own_[matrix.col[i]]) pattern.emplace_back(matrix.col[i], matrix.value[i]);
    }
    by_pattern[pattern].push_back(static_cast<int32_t>(row));
  }
  std::map<size_t, std::vector<std::vector<int32_t>>, std::greater<>> by_size;
  for (const auto& [pattern, rows] : by_pattern) {
    const size_t most = pattern.empty() ? kEmptyGroupRows : rows.size();
    for (size_t begin = 0; begin < rows.size(); begin += most) {
      const size_t end = std::min(begin + most, rows.size());
      by_size[end - begin].emplace_back(rows.begin() + begin, rows.begin() + end);
    }
  }
  std::vector<std::vector<int32_t>> groups;
  for (const auto& [size, of_size] : by_size) groups.insert(groups.end(), of_size.begin(), of_size.end());
  Number(groups);

  std::vector<int32_t> group_of(matrix.rows, -1), place_of(matrix.rows);
  for (size_t group = 0; group < groups.size(); ++group) group_of[groups[group].front()] = static_cast<int32_t>(group);
  for (int32_t place = 0; place < matrix.rows; ++place) place_of[order_[place]] = place;
  std::vector<std::tuple<int32_t, int32_t, float>> shared, own;
  for (size_t i = 0; i < matrix.nonzeros(); ++i) {
    const int32_t row = matrix.row[i], col = matrix.col[i];
    if (column_is_own_[col]) {
      own.emplace_back(place_of[row], col, matrix.value[i]);
    } else if (group_of[row] >= 0) {
      shared.emplace_back(group_of[row], col, matrix.value[i]);
    }
  }
  shared_ = ColumnMatrix(FromTriples(static_cast<int32_t>(groups.size()), matrix.cols, shared));
  own_ = ColumnMatrix(FromTriples(matrix.rows, matrix.cols, own));
}

// Groups are ordered by falling size; level by level, their rows get consecutive numbers.
void GroupedRows::Number(const std::vector<std::vector<int32_t>>& groups) {
  for (size_t level = 0; !groups.empty() && level < groups.front().size(); ++level) {
    int32_t size = 0;
    for (; size < static_cast<int32_t>(groups.size()) && groups[size].size() > level; ++size) {
      order_.push_back(groups[size][level]);
    }
    level_size_.push_back(size);
  }
}

void GroupedRows::Multiply(const float* x, const uint16_t* active, int count, float* __restrict shared,
                           float* __restrict sums) const {
  std::fill_n(shared, shared_.padded_rows(), 0.0f);
  std::fill_n(sums, own_.padded_rows(), 0.0f);
  for (int i = 0; i < count; ++i) {
    const int col = active[i];
    if (column_is_own_[col]) {
      own_.AddColumn(col, x[col], sums);
    } else {
      shared_.AddColumn(col, x[col], shared);
    }
  }
  float* level = sums;
  for (const int32_t size : level_size_) {
    AddTo(level, shared, size);
    level += size;
  }
}

MixerRows::MixerRows(const CircuitLayer& layer) : places_(layer.heads) {
  using Triples = std::vector<std::tuple<int32_t, int32_t, float>>;
  Triples all;
  int rows = 0;
  std::map<Triples, int> known;
  const auto place = [&](const SparseMatrix& matrix, int head, int block_rows) {
    Triples block;
    const auto end = std::lower_bound(matrix.row.begin(), matrix.row.end(), (head + 1) * block_rows);
    auto it = std::lower_bound(matrix.row.begin(), end, head * block_rows);
    for (; it != end; ++it) {
      const size_t i = it - matrix.row.begin();
      block.emplace_back(*it - head * block_rows, matrix.col[i], matrix.value[i]);
    }
    if (block_rows == kHeadDim) {
      if (const auto found = known.find(block); found != known.end()) return found->second;
      known[block] = rows;
    }
    for (const auto& [row, col, value] : block) all.emplace_back(rows + row, col, value);
    rows += block_rows;
    return rows - block_rows;
  };
  for (int head = 0; head < layer.heads; ++head) {
    Places& places = places_[head];
    places.q = place(layer.q, head, kHeadDim);
    places.k = place(layer.k, head, kHeadDim);
    places.v = place(layer.v, head, kHeadDim);
    places.z = place(layer.z, head, kHeadDim);
  }
  for (int head = 0; head < layer.heads; ++head) {
    places_[head].b = place(layer.b, head, 1);
    places_[head].a = place(layer.a, head, 1);
  }
  columns_ = ColumnMatrix(FromTriples(rows, layer.q.cols, all));
}

void MixerRows::Multiply(const float* x, const uint16_t* active, int count, float* sums) const {
  std::fill_n(sums, columns_.padded_rows(), 0.0f);
  for (int i = 0; i < count; ++i) columns_.AddColumn(active[i], x[active[i]], sums);
}

LineMatrix::LineMatrix(const SparseMatrix& matrix, Lines lines) {
  const bool by_row = lines == Lines::kRows;
  std::vector<std::vector<Entry>> entries(by_row ? matrix.rows : matrix.cols);
  for (size_t i = 0; i < matrix.nonzeros(); ++i) {
    const int32_t line = by_row ? matrix.row[i] : matrix.col[i], place = by_row ? matrix.col[i] : matrix.row[i];
    entries[line].push_back({static_cast<uint16_t>(place), ToBFloat16(matrix.value[i])});
  }
  for (const std::vector<Entry>& of_line : entries) {
    Line line;
    line.begin = static_cast<uint32_t>(rest_.size());
    if (!of_line.empty()) {
      line.first = of_line.front();
      rest_.insert(rest_.end(), of_line.begin() + 1, of_line.end());
    }
    line.end = static_cast<uint32_t>(rest_.size());
    lines_.push_back(line);
  }
}

void LineMatrix::Reorder(const std::vector<int32_t>& order) {
  std::vector<Line> lines;
  lines.reserve(order.size());
  for (const int32_t line : order) lines.push_back(lines_[line]);
  lines_ = std::move(lines);
}

}  // namespace qgpu::sparse
