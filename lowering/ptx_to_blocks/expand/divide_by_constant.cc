#include "lowering/ptx_to_blocks/expand/divide_by_constant.h"

#include <bit>
#include <cstdlib>

#include "lowering/ptx_to_blocks/expand/expand.h"

namespace qgpu::lower {
namespace {

using Wide = unsigned __int128;

class Divider {
 public:
  Divider(IrFunction& function, PairMath& math) : f_(function), math_(math) {}

  int Unsigned(int value, uint64_t greatest, uint32_t divisor) {
    if (std::has_single_bit(divisor)) return Shift(IrOp::kShr, value, std::countr_zero(divisor));
    // value * m >> s is right where the error m * divisor - 2^s, times the greatest value, stays below 2^s.
    for (int s = 0; s < 64; ++s) {
      const Wide power = Wide{1} << s;
      const Wide m = (power + divisor - 1) / divisor, error = m * divisor - power;
      if (error * greatest >= power || m > 0xffffffffu) continue;
      if (s < 32 && m * greatest <= 0xffffffffu) {  // no need for the upper half of the product
        return Shift(IrOp::kShr, Op(IrOp::kMul, value, Constant(static_cast<uint32_t>(m))), s);
      }
      if (s >= 32) return Shift(IrOp::kShr, High(value, static_cast<uint32_t>(m), false), s - 32);
    }
    // m has 33 bits: its highest one is added as (value - high) / 2 + high, which does not overflow.
    const int bits = 32 - std::countl_zero(divisor - 1);
    const Wide m = ((Wide{1} << (32 + bits)) + divisor - 1) / divisor - (Wide{1} << 32);
    const int high = High(value, static_cast<uint32_t>(m), false);
    const int half = Shift(IrOp::kShr, Op(IrOp::kSub, value, high), 1);
    return Shift(IrOp::kShr, Op(IrOp::kAdd, half, high), bits - 1);
  }

  int Signed(int value, int32_t divisor) {
    const int64_t magnitude = std::abs(static_cast<int64_t>(divisor));
    const int quotient = magnitude == 1                                          ? value
                         : std::has_single_bit(static_cast<uint64_t>(magnitude)) ? ByPowerOfTwo(value, magnitude)
                                                                                 : ByMagnitude(value, magnitude);
    return divisor < 0 ? Op(IrOp::kSub, Constant(0), quotient) : quotient;
  }

 private:
  int Constant(uint32_t value) { return math_.Constant(value); }
  int Op(IrOp op, int a, int b) { return math_.Op(op, {a, b}); }
  int Shift(IrOp op, int value, int amount) { return Op(op, value, Constant(static_cast<uint32_t>(amount))); }
  int High(int value, uint32_t factor, bool is_signed) {
    const Emit32Function emit = [this](IrOp op, std::vector<int> args) { return math_.Op(op, std::move(args)); };
    return ExpandHighProduct(f_, emit, value, Constant(factor), is_signed);
  }

  // Negative values are rounded up: divisor - 1 is added to them.
  int ByPowerOfTwo(int value, int64_t magnitude) {
    const int shift = std::countr_zero(static_cast<uint64_t>(magnitude));
    const int rounding = Shift(IrOp::kShr, Shift(IrOp::kSar, value, 31), 32 - shift);
    return Shift(IrOp::kSar, Op(IrOp::kAdd, value, rounding), shift);
  }

  // m = floor(2^(32 + s) / magnitude) + 1 with the smallest s whose error is small enough, as a signed number; the
  // quotient of a negative value is one too small.
  int ByMagnitude(int value, int64_t magnitude) {
    int s = 0;
    Wide m = 0;
    for (;; ++s) {
      const Wide power = Wide{1} << (32 + s);
      m = power / static_cast<uint64_t>(magnitude) + 1;
      if (m * static_cast<uint64_t>(magnitude) - power < (Wide{2} << s)) break;
    }
    const auto factor = static_cast<uint32_t>(m);
    int high = High(value, factor, true);
    if ((factor >> 31) != 0) high = Op(IrOp::kAdd, high, value);  // m as a signed number is 2^32 less
    return Op(IrOp::kAdd, Shift(IrOp::kSar, high, s), Shift(IrOp::kShr, value, 31));
  }

  IrFunction& f_;
  PairMath& math_;
};

}  // namespace

int QuotientByConstant(IrFunction& function, PairMath& math, int value, const Range& range, uint32_t divisor,
                       bool is_signed) {
  Divider divider(function, math);
  const bool positive = range.low >= 0;
  if (is_signed && !(positive && static_cast<int32_t>(divisor) > 0)) {
    return divider.Signed(value, static_cast<int32_t>(divisor));
  }
  return divider.Unsigned(value, positive ? static_cast<uint64_t>(range.high) : 0xffffffffu, divisor);
}

}  // namespace qgpu::lower
