#include "lowering/ptx_to_blocks/expand/expand.h"

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
  // A negative factor is its unsigned value less 2^32. Multiplying by the sign takes fewer instructions, but only every
  // other slot multiplies, and by a constant the other way is as short.
  const bool by_constant = function.IsConstant(a) || function.IsConstant(b);
  for (const auto& [signed_one, other] : {std::pair{a, b}, {b, a}}) {
    const int mask = emit(IrOp::kSar, {signed_one, constant(31)});
    product = by_constant ? emit(IrOp::kSub, {product, emit(IrOp::kAnd, {mask, other})})
                          : emit(IrOp::kMad, {mask, other, product});
  }
  return product;
}

}  // namespace qgpu::lower
