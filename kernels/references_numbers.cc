// Numbers: loops that every thread leaves after a number of turns of its own.
#include <cmath>
#include <numeric>

#include "kernels/references.h"

namespace qgpu {
namespace {

uint32_t FibonacciOf(int32_t n) {
  Words table = {0, 1};
  while (Signed(static_cast<uint32_t>(table.size())) <= n)
    table.push_back(table[table.size() - 1] + table[table.size() - 2]);
  return n < 0 ? 0 : table[static_cast<size_t>(n)];
}

uint32_t FactorialOf(int32_t n) { return n <= 1 ? 1 : Unsigned(n) * FactorialOf(n - 1); }

uint32_t CollatzSteps(uint32_t x) {
  uint32_t steps = 0;
  for (; x > 1; ++steps) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
  return steps;
}

// By every number up to the root, not only the odd ones.
bool IsPrime(uint32_t x) {
  if (x < 2) return false;
  for (uint64_t d = 2; d * d <= x; ++d) {
    if (x % d == 0) return false;
  }
  return true;
}

// From the exponent's highest bit down.
uint32_t PowerModulo(uint64_t base, uint32_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (int bit = 31; bit >= 0; --bit) {
    result = result * result % modulus;
    if (exponent >> bit & 1) result = result * (base % modulus) % modulus;
  }
  return static_cast<uint32_t>(result % modulus);
}

// z * z + c until |z| > 2; numbers have 8 bits after the point, and products are rounded towards minus infinity.
uint32_t EscapeSteps(int64_t cx, int64_t cy, size_t max_steps) {
  const auto rounded = [](int64_t product) { return (product - (product & 255)) / 256; };
  int64_t x = 0, y = 0;
  uint32_t steps = 0;
  for (; steps < max_steps && x * x + y * y <= 512 * 512; ++steps) {
    const int64_t real = rounded(x * x - y * y) + cx;
    y = rounded(2 * x * y) + cy;
    x = real;
  }
  return steps;
}

void Mandelbrot(Arguments& m) {
  const size_t width = m.Count("width"), height = m.Count("height");
  for (size_t i = 0; i < width * height; ++i) {
    const int64_t row = static_cast<int64_t>(i / width), column = static_cast<int64_t>(i % width);
    m.Buffer("out")[i] = EscapeSteps(m.Scalar("left") + column * m.Scalar("step"),
                                     m.Scalar("top") + row * m.Scalar("step"), m.Count("max_steps"));
  }
}

}  // namespace

ReferenceTable NumberReferences() {
  return {
      {"gcd", PerElement({"a", "b", "out", "n"}, "out", "n",
                         [](Arguments& m, size_t i) {
                           return std::gcd(Absolute(m.Buffer("a")[i]), Absolute(m.Buffer("b")[i]));
                         })},
      {"factorial", PerElement({"n", "out", "count"}, "out", "count",
                               [](Arguments& m, size_t i) { return FactorialOf(Signed(m.Buffer("n")[i])); })},
      {"fibonacci", PerElement({"n", "out", "count"}, "out", "count",
                               [](Arguments& m, size_t i) { return FibonacciOf(Signed(m.Buffer("n")[i])); })},
      {"is_prime", PerElement({"x", "out", "n"}, "out", "n",
                              [](Arguments& m, size_t i) { return IsPrime(m.Buffer("x")[i]) ? 1u : 0u; })},
      {"mod_pow", PerElement({"base", "exponent", "modulus", "out", "n"}, "out", "n",
                             [](Arguments& m, size_t i) {
                               return PowerModulo(m.Buffer("base")[i], m.Buffer("exponent")[i],
                                                  Unsigned(m.Scalar("modulus")));
                             })},
      {"collatz_steps", PerElement({"x", "steps", "n"}, "steps", "n",
                                   [](Arguments& m, size_t i) { return CollatzSteps(m.Buffer("x")[i]); })},
      {"integer_sqrt", PerElement({"x", "root", "n"}, "root", "n",
                                  [](Arguments& m, size_t i) {
                                    // Exact: a double holds every 32-bit number, and the root is rounded once.
                                    return static_cast<uint32_t>(std::floor(std::sqrt(double(m.Buffer("x")[i]))));
                                  })},
      {"mandelbrot_fixed", {{"left", "top", "step", "out", "width", "height", "max_steps"}, Mandelbrot}},
  };
}

}  // namespace qgpu
