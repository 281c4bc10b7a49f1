#include "lowering/ptx_to_blocks/simplify/constants.h"

#include <algorithm>
#include <bit>

namespace qgpu::lower {

bool CompareValues(Compare compare, uint64_t a, uint64_t b, Type type) {
  if (type == Type::kI32) {  // sign-extended, so that both signed and unsigned order are right
    a = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a)));
    b = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(b)));
  }
  const auto sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
  switch (compare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return a != b;
    case Compare::kLtS:
      return sa < sb;
    case Compare::kLeS:
      return sa <= sb;
    case Compare::kGtS:
      return sa > sb;
    case Compare::kGeS:
      return sa >= sb;
    case Compare::kLtU:
      return a < b;
    case Compare::kLeU:
      return a <= b;
    case Compare::kGtU:
      return a > b;
    case Compare::kGeU:
      return a >= b;
  }
  return false;
}

std::optional<uint64_t> Evaluate(IrOp op, Type type, const std::vector<uint64_t>& args) {
  const unsigned bits = type == Type::kI64 ? 64 : 32;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : 0xffffffffu;
  const auto as_signed = [&](uint64_t v) {
    return bits == 64 ? static_cast<int64_t>(v) : static_cast<int64_t>(static_cast<int32_t>(v));
  };
  const uint64_t a = args[0], b = args.size() > 1 ? args[1] : 0;
  switch (op) {
    case IrOp::kAdd:
      return (a + b) & mask;
    case IrOp::kSub:
      return (a - b) & mask;
    case IrOp::kMul:
      return (a * b) & mask;
    case IrOp::kMad:
      return (a * b + args[2]) & mask;
    case IrOp::kAnd:
      return a & b;
    case IrOp::kOr:
      return a | b;
    case IrOp::kXor:
      return a ^ b;
    case IrOp::kShl:
      return b < bits ? (a << b) & mask : 0;
    case IrOp::kShr:
      return b < bits ? a >> b : 0;
    case IrOp::kSar:
      return static_cast<uint64_t>(as_signed(a) >> std::min<uint64_t>(b, bits - 1)) & mask;
    case IrOp::kMinU:
      return std::min(a, b);
    case IrOp::kMaxU:
      return std::max(a, b);
    case IrOp::kMinS:
      return as_signed(a) < as_signed(b) ? a : b;
    case IrOp::kMaxS:
      return as_signed(a) > as_signed(b) ? a : b;
    case IrOp::kPopc:
      return std::popcount(a);
    case IrOp::kClz:
      return std::countl_zero(static_cast<uint32_t>(a));
    case IrOp::kBrev: {
      uint32_t reversed = 0;
      for (int i = 0; i < 32; ++i) reversed |= static_cast<uint32_t>(a >> i & 1) << (31 - i);
      return reversed;
    }
    case IrOp::kMulHighU:
      return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
    case IrOp::kDivU:
      return b == 0 ? mask : a / b;
    case IrOp::kRemU:
      return b == 0 ? a : a % b;
    case IrOp::kDivS:
      if (b == 0) return mask;
      return as_signed(b) == -1 ? (0 - a) & mask : static_cast<uint64_t>(as_signed(a) / as_signed(b)) & mask;
    case IrOp::kRemS:
      if (b == 0) return a;
      return as_signed(b) == -1 ? 0 : static_cast<uint64_t>(as_signed(a) % as_signed(b)) & mask;
    case IrOp::kSignExt:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a)));
    case IrOp::kZeroExt:
    case IrOp::kTruncate:
      return a & 0xffffffffu;
    case IrOp::kPredAnd:
      return a & b;
    case IrOp::kPredOr:
      return a | b;
    case IrOp::kPredXor:
      return a ^ b;
    case IrOp::kPredNot:
      return a ^ 1;
    default:
      return std::nullopt;
  }
}

bool NeverHappens(const IrFunction& function, const IrInstruction& in) {
  return in.guard >= 0 && function.IsConstant(in.guard) && (function.at(in.guard).immediate != 0) == in.negate;
}

}  // namespace qgpu::lower
