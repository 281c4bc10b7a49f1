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

// Steps until c escapes; numbers have 8 bits after the point, and shifts round towards minus infinity.
uint32_t EscapeSteps(int32_t cx, int32_t cy, size_t max_steps) {
  int64_t x = 0, y = 0;
  for (size_t steps = 0; steps < max_steps; ++steps) {
    // A first step from zero goes to c itself, which may be anywhere; the kernel's 32-bit sum of squares wraps.
    const int32_t square = Signed(Unsigned(x * x) + Unsigned(y * y));
    if (square > 4 * 256 * 256) return static_cast<uint32_t>(steps);
    const int64_t real = Signed(Unsigned(x * x) - Unsigned(y * y));
    const int64_t imaginary = Signed(2 * Unsigned(x) * Unsigned(y));
    x = Signed(Unsigned((real - (real & 255)) / 256 + cx));
    y = Signed(Unsigned((imaginary - (imaginary & 255)) / 256 + cy));
  }
  return static_cast<uint32_t>(max_steps);
}

void Mandelbrot(Arguments& m) {
  const size_t width = m.Count("width"), height = m.Count("height");
  for (size_t row = 0; row < std::min<size_t>(height, m.grid.y * m.block.y); ++row) {
    for (size_t column = 0; column < std::min<size_t>(width, m.grid.x * m.block.x); ++column) {
      const auto at = [&](const char* origin, size_t index) {
        return Signed(Unsigned(m.Scalar(origin)) + static_cast<uint32_t>(index) * Unsigned(m.Scalar("step")));
      };
      m.Buffer("out")[row * width + column] = EscapeSteps(at("left", column), at("top", row), m.Count("max_steps"));
    }
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
