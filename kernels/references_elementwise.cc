// Arithmetic and bits, an element a thread.
#include <bit>

#include "kernels/references.h"

namespace qgpu {
namespace {

uint32_t PolynomialAt(const Words& coefficients, int32_t degree, uint32_t x) {
  uint32_t value = 0, power = 1;  // by powers here, not by Horner's rule
  for (int32_t k = 0; k <= degree; ++k, power *= x) value += coefficients[static_cast<size_t>(k)] * power;
  return value;
}

uint32_t Mirrored(uint32_t x) {
  uint32_t result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1) << (31 - bit);
  return result;
}

// Bit k of the number is the parity of the bits of the Gray code from k on.
uint32_t NumberOfGrayCode(uint32_t gray) {
  uint32_t number = 0;
  for (int bit = 0; bit < 32; ++bit) number |= static_cast<uint32_t>(std::popcount(gray >> bit) & 1) << bit;
  return number;
}

// Marsaglia's three steps, each as the bits it moves.
uint32_t NextXorshift(uint32_t x) {
  const auto step = [&x](int distance) {
    uint32_t moved = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const int from = bit - distance;
      if (from >= 0 && from < 32) moved |= (x >> from & 1) << bit;
    }
    x ^= moved;
  };
  step(13), step(-17), step(5);
  return x;
}

// By the table of the 256 remainders.
uint32_t Crc32(const std::function<uint8_t(size_t)>& byte, size_t length) {
  Words table(256);
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] % 2 != 0 ? 0xedb88320u : 0u);
  }
  uint32_t crc = ~0u;
  for (size_t k = 0; k < length; ++k) crc = crc >> 8 ^ table[(crc & 0xff) ^ byte(k)];
  return ~crc;
}

ReferenceTable ArithmeticReferences() {
  return {
      {"vector_add", PerElement({"a", "b", "c", "n"}, "c", "n",
                                [](Arguments& m, size_t i) { return m.Buffer("a")[i] + m.Buffer("b")[i]; })},
      {"saxpy", PerElement({"a", "x", "y", "n"}, "y", "n",
                           [](Arguments& m, size_t i) {
                             return Unsigned(m.Scalar("a")) * m.Buffer("x")[i] + m.Buffer("y")[i];
                           })},
      {"elementwise_mul", PerElement({"a", "b", "out", "n"}, "out", "n",
                                     [](Arguments& m, size_t i) {
                                       return Unsigned(int64_t{Signed(m.Buffer("a")[i])} * Signed(m.Buffer("b")[i]));
                                     })},
      {"relu",
       PerElement({"in", "out", "n"}, "out", "n",
                  [](Arguments& m, size_t i) { return Signed(m.Buffer("in")[i]) < 0 ? 0 : m.Buffer("in")[i]; })},
      {"clamp", PerElement({"data", "low", "high", "n"}, "data", "n",
                           [](Arguments& m, size_t i) {
                             const int32_t value = Signed(m.Buffer("data")[i]);
                             const int32_t low = m.Scalar("low"), high = m.Scalar("high");
                             const int32_t raised = value < low ? low : value;
                             return Unsigned(raised > high ? high : raised);
                           })},
      {"abs_diff", PerElement({"a", "b", "out", "n"}, "out", "n",
                              [](Arguments& m, size_t i) { return Absolute(m.Buffer("a")[i] - m.Buffer("b")[i]); })},
      {"polynomial", PerElement({"c", "degree", "x", "y", "n"}, "y", "n",
                                [](Arguments& m, size_t i) {
                                  return PolynomialAt(m.Buffer("c"), m.Scalar("degree"), m.Buffer("x")[i]);
                                })},
      {"select_max",
       {{"a", "b", "out", "which", "n"},
        [](Arguments& m) {
          for (size_t i = 0; i < m.Threads("n"); ++i) {
            m.Buffer("out")[i] = Unsigned(std::max(Signed(m.Buffer("a")[i]), Signed(m.Buffer("b")[i])));
            m.Buffer("which")[i] = m.Buffer("out")[i] == m.Buffer("a")[i] ? 0 : 1;
          }
        }}},
      {"xor_network", PerElement({"inputs", "weights", "out", "n"}, "out", "n",
                                 [](Arguments& m, size_t i) {
                                   const Words inputs = {m.Buffer("inputs")[2 * i], m.Buffer("inputs")[2 * i + 1], 1};
                                   const Words& weights = m.Buffer("weights");
                                   uint32_t out = weights[8];
                                   for (size_t hidden = 0; hidden < 2; ++hidden) {
                                     uint32_t sum = 0;
                                     for (size_t k = 0; k < 3; ++k) sum += inputs[k] * weights[3 * hidden + k];
                                     if (Signed(sum) > 0) out += weights[6 + hidden] * sum;
                                   }
                                   return out;
                                 })},
  };
}

ReferenceTable BitReferences() {
  return {
      {"popcount",
       PerElement({"x", "out", "n"}, "out", "n",
                  [](Arguments& m, size_t i) { return static_cast<uint32_t>(std::popcount(m.Buffer("x")[i])); })},
      {"parity",
       PerElement({"x", "out", "n"}, "out", "n",
                  [](Arguments& m, size_t i) { return static_cast<uint32_t>(std::popcount(m.Buffer("x")[i]) % 2); })},
      {"bit_reverse",
       PerElement({"x", "out", "n"}, "out", "n", [](Arguments& m, size_t i) { return Mirrored(m.Buffer("x")[i]); })},
      {"gray_code",
       {{"x", "gray", "number", "n"},
        [](Arguments& m) {
          for (size_t i = 0; i < m.Threads("n"); ++i) {
            m.Buffer("gray")[i] = m.Buffer("x")[i] ^ m.Buffer("x")[i] / 2;
            m.Buffer("number")[i] = NumberOfGrayCode(m.Buffer("x")[i]);
          }
        }}},
      {"rotate_left", PerElement({"x", "amount", "out", "n"}, "out", "n",
                                 [](Arguments& m, size_t i) {
                                   return std::rotl(m.Buffer("x")[i], static_cast<int>(m.Buffer("amount")[i] % 32));
                                 })},
      {"xorshift32", PerElement({"state", "steps", "n"}, "state", "n",
                                [](Arguments& m, size_t i) {
                                  uint32_t x = m.Buffer("state")[i];
                                  for (size_t k = 0; k < m.Count("steps"); ++k) x = NextXorshift(x);
                                  return x;
                                })},
      {"crc32", PerElement({"messages", "length", "crc", "n"}, "crc", "n",
                           [](Arguments& m, size_t i) {
                             const size_t length = m.Count("length");
                             return Crc32([&](size_t k) { return m.Byte("messages", i * length + k); }, length);
                           })},
  };
}

}  // namespace

ReferenceTable ElementwiseReferences() {
  ReferenceTable all = ArithmeticReferences();
  all.merge(BitReferences());
  return all;
}

}  // namespace qgpu
