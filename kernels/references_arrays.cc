// Matrices, stencils, and memory that is indexed or shared by atomics.
#include <numeric>

#include "kernels/references.h"

namespace qgpu {
namespace {

void Matmul(Arguments& m) {
  const size_t rows = m.Count("m"), inner = m.Count("k"), columns = m.Count("n");
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) m.Buffer("c")[row * columns + column] = 0;
    for (size_t i = 0; i < inner; ++i) {  // row by row of b
      for (size_t column = 0; column < columns; ++column) {
        m.Buffer("c")[row * columns + column] += m.Buffer("a")[row * inner + i] * m.Buffer("b")[i * columns + column];
      }
    }
  }
}

void Transpose(Arguments& m) {
  const size_t rows = m.Count("rows"), columns = m.Count("columns");
  for (size_t i = 0; i < rows * columns; ++i) m.Buffer("out")[i % columns * rows + i / columns] = m.Buffer("in")[i];
}

void OuterProduct(Arguments& m) {
  const size_t rows = m.Count("rows"), columns = m.Count("columns");
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      m.Buffer("out")[row * columns + column] = m.Buffer("a")[row] * m.Buffer("b")[column];
    }
  }
}

// By the six permutations.
uint32_t Determinant3(Arguments& m, size_t i) {
  const auto at = [&](size_t row, size_t column) { return m.Buffer("matrices")[9 * i + 3 * row + column]; };
  uint32_t sum = 0;
  for (size_t k = 0; k < 3; ++k) {
    sum += at(0, k) * at(1, (k + 1) % 3) * at(2, (k + 2) % 3);
    sum -= at(0, k) * at(1, (k + 2) % 3) * at(2, (k + 1) % 3);
  }
  return sum;
}

void CasCounter(Arguments& m) {
  uint64_t sum = m.Buffer("counter")[0];
  for (size_t i = 0; i < m.Threads("n"); ++i) sum += m.Buffer("step")[i];
  m.Buffer("counter")[0] = static_cast<uint32_t>(std::min<uint64_t>(sum, Unsigned(m.Scalar("limit"))));
}

uint32_t Stencil(Arguments& m, size_t i) {
  Words padded = {0};
  padded.insert(padded.end(), m.Buffer("in").begin(), m.Buffer("in").begin() + static_cast<ptrdiff_t>(m.Count("n")));
  padded.push_back(0);
  return padded[i] + 2 * padded[i + 1] + padded[i + 2];
}

void GameOfLife(Arguments& m) {
  const int width = m.Scalar("width"), height = m.Scalar("height");
  const auto alive = [&](int x, int y) {
    return x >= 0 && y >= 0 && x < width && y < height ? m.Buffer("in")[static_cast<size_t>(y * width + x)] : 0;
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint32_t neighbours = 0;
      for (int k = 0; k < 9; ++k) neighbours += k == 4 ? 0 : alive(x + k % 3 - 1, y + k / 3 - 1);
      const bool lives = neighbours == 3 || (neighbours == 2 && alive(x, y) != 0);
      m.Buffer("out")[static_cast<size_t>(y * width + x)] = lives;
    }
  }
}

}  // namespace

ReferenceTable ArrayReferences() {
  return {
      {"matmul", {{"a", "b", "c", "m", "k", "n"}, Matmul}},
      {"matvec", PerElement({"matrix", "x", "y", "rows", "columns"}, "y", "rows",
                            [](Arguments& m, size_t row) {
                              const auto begin = m.Buffer("matrix").begin(), x = m.Buffer("x").begin();
                              const auto columns = static_cast<ptrdiff_t>(m.Count("columns"));
                              return std::inner_product(x, x + columns, begin + static_cast<ptrdiff_t>(row) * columns,
                                                        0u);
                            })},
      {"transpose", {{"in", "out", "rows", "columns"}, Transpose}},
      {"determinant3", PerElement({"matrices", "out", "n"}, "out", "n", Determinant3)},
      {"outer_product", {{"a", "b", "out", "rows", "columns"}, OuterProduct}},
      {"histogram",
       {{"in", "bins", "n"},
        [](Arguments& m) {
          for (size_t i = 0; i < m.Threads("n"); ++i) ++m.Buffer("bins")[m.Buffer("in")[i] % 8];
        }}},
      {"atomic_max",
       {{"in", "largest", "largest_unsigned", "n"},
        [](Arguments& m) {
          for (size_t i = 0; i < m.Threads("n"); ++i) {
            uint32_t &largest = m.Buffer("largest")[0], &largest_unsigned = m.Buffer("largest_unsigned")[0];
            largest = Unsigned(std::max(Signed(largest), Signed(m.Buffer("in")[i])));
            largest_unsigned = std::max(largest_unsigned, m.Buffer("in")[i]);
          }
        }}},
      {"cas_counter", {{"counter", "step", "limit", "n"}, CasCounter}},
      {"gather", PerElement({"data", "index", "out", "n"}, "out", "n",
                            [](Arguments& m, size_t i) { return m.Buffer("data")[m.Buffer("index")[i]]; })},
      {"scatter",
       {{"data", "index", "out", "n"},
        [](Arguments& m) {
          for (size_t i = 0; i < m.Threads("n"); ++i) m.Buffer("out")[m.Buffer("index")[i]] = m.Buffer("data")[i];
        }}},
      {"stencil_shared", PerElement({"in", "out", "n"}, "out", "n", Stencil)},
      {"reverse_shared",
       {{"data", "n"},
        [](Arguments& m) {
          std::reverse(m.Buffer("data").begin(), m.Buffer("data").begin() + static_cast<ptrdiff_t>(m.Count("n")));
        }}},
      {"game_of_life", {{"in", "out", "width", "height"}, GameOfLife}},
  };
}

}  // namespace qgpu
