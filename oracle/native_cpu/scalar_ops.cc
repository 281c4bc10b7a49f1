#include "oracle/native_cpu/scalar_ops.h"

#include <algorithm>

namespace qgpu::native {
namespace {

bool Bit(uint64_t value, uint64_t position) { return (value >> position & 1) != 0; }

int32_t Byte(uint32_t value, uint32_t index, bool is_signed) {
  const auto byte = static_cast<uint8_t>(value >> (8 * index));
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

int32_t Half(uint32_t value, uint32_t index, bool is_signed) {
  const auto half = static_cast<uint16_t>(value >> (16 * index));
  return is_signed ? static_cast<int16_t>(half) : half;
}

}  // namespace

uint64_t BitFieldExtract(uint64_t a, uint64_t position, uint64_t length, uint32_t bits, bool is_signed) {
  const uint64_t pos = position & 0xff, len = length & 0xff, msb = bits - 1;
  const bool sign = is_signed && len != 0 && Bit(a, std::min(pos + len - 1, msb));
  uint64_t result = 0;
  for (uint64_t i = 0; i <= msb; ++i) {
    const bool bit = i < len && pos + i <= msb ? Bit(a, pos + i) : sign;
    result |= uint64_t{bit} << i;
  }
  return result;
}

uint64_t BitFieldInsert(uint64_t a, uint64_t b, uint64_t position, uint64_t length, uint32_t bits) {
  const uint64_t pos = position & 0xff, len = length & 0xff, msb = bits - 1;
  for (uint64_t i = 0; i < len && pos + i <= msb; ++i) {
    b = (b & ~(uint64_t{1} << (pos + i))) | (uint64_t{Bit(a, i)} << (pos + i));
  }
  return b;
}

uint32_t BitFind(uint64_t a, uint32_t bits, bool is_signed, bool shift_amount) {
  const uint32_t msb = bits - 1;
  if (is_signed && Bit(a, msb)) a = ~a;
  for (uint32_t i = bits; i-- > 0;) {
    if (Bit(a, i)) return shift_amount ? msb - i : i;
  }
  return 0xffffffff;
}

uint32_t FindNthSet(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return 0xffffffff;
  if (offset == 0) return Bit(mask, base) ? base : 0xffffffff;
  const int64_t step = offset > 0 ? 1 : -1;
  int64_t count = (offset > 0 ? int64_t{offset} : -int64_t{offset}) - 1;
  for (int64_t position = base; position >= 0 && position < 32; position += step) {
    if (Bit(mask, static_cast<uint64_t>(position)) && count-- == 0) return static_cast<uint32_t>(position);
  }
  return 0xffffffff;
}

uint32_t SignOrZeroExtend(uint32_t a, uint32_t width, bool is_signed, bool clamp) {
  if (!clamp) width &= 31;
  if (width == 0) return 0;
  if (width >= 32) return a;
  const uint32_t low = a & ((uint32_t{1} << width) - 1);
  return is_signed && Bit(a, width - 1) ? low | ~uint32_t{0} << width : low;
}

uint32_t BitMask(uint32_t position, uint32_t width, bool clamp) {
  if (!clamp) {
    position &= 31;
    width &= 31;
  }
  uint32_t mask = 0;
  for (uint64_t i = position; i < 32 && i < uint64_t{position} + width; ++i) mask |= uint32_t{1} << i;
  return mask;
}

uint32_t Permute(uint32_t a, uint32_t b, uint32_t selector, PermuteMode mode) {
  static constexpr uint8_t kModes[6][4][4] = {
      // For each selector 0..3, the source bytes of result bytes 0..3.
      {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}},  // f4e
      {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}},  // b4e
      {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},  // rc8
      {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}},  // ecl
      {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}},  // ecr
      {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}},  // rc16
  };
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t nibble = mode == PermuteMode::kIndex ? selector >> (4 * i) & 15
                                                        : kModes[static_cast<uint32_t>(mode) - 1][selector & 3][i];
    auto byte = static_cast<uint8_t>(bytes >> (8 * (nibble & 7)));
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= uint32_t{byte} << (8 * i);
  }
  return result;
}

uint32_t FunnelShift(uint32_t low, uint32_t high, uint32_t amount, bool left, bool clamp) {
  const uint32_t n = clamp ? std::min(amount, 32u) : amount & 31;
  const uint64_t value = uint64_t{high} << 32 | low;
  return static_cast<uint32_t>(left ? value << n >> 32 : value >> n);
}

uint32_t LogicOp3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
    result |= (table >> row & 1) << i;
  }
  return result;
}

uint32_t DotProduct4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (uint32_t i = 0; i < 4; ++i) c += static_cast<uint32_t>(Byte(a, i, a_signed) * Byte(b, i, b_signed));
  return c;
}

uint32_t DotProduct2(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high) {
  for (uint32_t i = 0; i < 2; ++i) {
    c += static_cast<uint32_t>(Half(a, i, a_signed) * Byte(b, i + (high ? 2 : 0), b_signed));
  }
  return c;
}

}  // namespace qgpu::native
