#include "lowering/ptx_to_blocks/expand.h"

namespace qgpu::lower {

int ExpandHighProduct(IrFunction& function, const Emit32Function& emit, int a, int b, bool is_signed) {
  const auto constant = [&](uint32_t value) { return function.Constant(Type::kI32, value); };
  const auto low = [&](int value) { return emit(IrOp::kAnd, {value, constant(0xffff)}); };
  const auto high = [&](int value) { return emit(IrOp::kShr, {value, constant(16)}); };
  const int a_low = low(a), a_high = high(a), b_low = low(b), b_high = high(b);
  // (2^16 - 1)^2 + 2^16 - 1 is below 2^32: no sum wraps.
  const int first = emit(IrOp::kMad, {a_high, b_low, high(emit(IrOp::kMul, {a_low, b_low}))});
  const int second = emit(IrOp::kMad, {a_low, b_high, low(first)});
  int product = emit(IrOp::kAdd, {emit(IrOp::kMad, {a_high, b_high, high(first)}), high(second)});
  if (!is_signed) return product;
  // A negative factor is its unsigned value less 2^32.
  const auto subtract_where_negative = [&](int sign, int other) {
    const int mask = emit(IrOp::kSar, {sign, constant(31)});
    product = emit(IrOp::kSub, {product, emit(IrOp::kAnd, {mask, other})});
  };
  subtract_where_negative(a, b);
  subtract_where_negative(b, a);
  return product;
}

}  // namespace qgpu::lower
