#include "lowering/ptx_to_blocks/ir/range_transfer.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace qgpu::lower {
namespace {

using Wide = __int128;

constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

Range Product(Type type, const Range& a, const Range& b) {
  const Wide ends[] = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
  return MakeRange(type, *std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4));
}

int64_t AllBitsOf(int64_t value) {  // the smallest 2^k - 1 that is not below value >= 0
  return value == 0 ? 0 : static_cast<int64_t>(~uint64_t{0} >> std::countl_zero(static_cast<uint64_t>(value)));
}

// Bounds where the divisor is known to be positive and, for the unsigned ones, the dividend not to be negative.
Range Division(const IrInstruction& in, const Range& a, const Range& b) {
  const bool is_signed = in.op == IrOp::kDivS || in.op == IrOp::kRemS;
  if (b.low <= 0 || (a.low < 0 && !is_signed)) return FullRange(in.type);
  if (in.op == IrOp::kDivU || in.op == IrOp::kDivS) {
    return {a.low < 0 ? a.low / b.low : a.low / b.high, a.high < 0 ? a.high / b.high : a.high / b.low};
  }
  return {a.low < 0 ? std::max(a.low, 1 - b.high) : 0, a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
}

// Logic, shifts, unsigned minimum and maximum.
Range Bits(const IrInstruction& in, const std::vector<Range>& args) {
  const Range full = FullRange(in.type);
  if (args.size() != 2) return full;
  const bool a = args[0].low >= 0, b = args[1].low >= 0;
  const bool constant_amount = args[1].low == args[1].high && args[1].Within(0, in.type == Type::kI64 ? 63 : 31);
  const int64_t amount = args[1].low;
  switch (in.op) {
    case IrOp::kAnd:
      if (!a && !b) return full;
      return {0, a && b ? std::min(args[0].high, args[1].high) : a ? args[0].high : args[1].high};
    case IrOp::kOr:
    case IrOp::kXor:
      return a && b ? Range{0, AllBitsOf(std::max(args[0].high, args[1].high))} : full;
    case IrOp::kMinU:
      if (a && b) return {std::min(args[0].low, args[1].low), std::min(args[0].high, args[1].high)};
      return a || b ? Range{0, a ? args[0].high : args[1].high} : full;
    case IrOp::kMaxU:
      return a && b ? Range{std::max(args[0].low, args[1].low), std::max(args[0].high, args[1].high)} : full;
    case IrOp::kShl:
      if (!constant_amount) return full;
      return MakeRange(in.type, Wide{args[0].low} << amount, Wide{args[0].high} << amount);
    case IrOp::kShr:
      if (!constant_amount) return a ? Range{0, args[0].high} : full;
      if (a) return {args[0].low >> amount, args[0].high >> amount};
      return amount == 0 ? args[0] : Range{0, in.type == Type::kI64 ? kMax64 >> (amount - 1) : kMaxU32 >> amount};
    case IrOp::kSar:
      if (!constant_amount) return {std::min<int64_t>(args[0].low, 0), std::max<int64_t>(args[0].high, 0)};
      return {args[0].low >> amount, args[0].high >> amount};
    default:
      return full;
  }
}

}  // namespace

Range FullRange(Type type) { return type == Type::kI64 ? Range{kMin64, kMax64} : Range{kMin32, kMax32}; }

Range MakeRange(Type type, Wide low, Wide high) {
  const Range full = FullRange(type);
  if (low < full.low || high > full.high) return full;
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

Range Union(const Range& a, const Range& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Range Intersection(const Range& a, const Range& b) {
  const Range both = {std::max(a.low, b.low), std::min(a.high, b.high)};
  return a.empty() || b.empty() || both.empty() ? Range{} : both;
}

Range TransferRange(const IrInstruction& in, const std::vector<Range>& args) {
  if (in.type != Type::kI32 && in.type != Type::kI64) return FullRange(Type::kI32);
  switch (in.op) {
    case IrOp::kAdd:
      return MakeRange(in.type, Wide{args[0].low} + args[1].low, Wide{args[0].high} + args[1].high);
    case IrOp::kSub:
      return MakeRange(in.type, Wide{args[0].low} - args[1].high, Wide{args[0].high} - args[1].low);
    case IrOp::kMul:
      return Product(in.type, args[0], args[1]);
    case IrOp::kMad: {
      const Range product = Product(Type::kI64, args[0], args[1]);
      return MakeRange(in.type, Wide{product.low} + args[2].low, Wide{product.high} + args[2].high);
    }
    case IrOp::kSelect:
      return Union(args[1], args[2]);
    case IrOp::kMinS:
      return {std::min(args[0].low, args[1].low), std::min(args[0].high, args[1].high)};
    case IrOp::kMaxS:
      return {std::max(args[0].low, args[1].low), std::max(args[0].high, args[1].high)};
    case IrOp::kLaneBallot:
      return {0, 15};
    case IrOp::kPopc:
    case IrOp::kClz:
      return {0, 32};
    case IrOp::kDivU:
    case IrOp::kRemU:
    case IrOp::kDivS:
    case IrOp::kRemS:
      return Division(in, args[0], args[1]);
    case IrOp::kSignExt:
      return args[0];
    case IrOp::kZeroExt:
      return args[0].low >= 0 ? args[0] : Range{0, kMaxU32};
    case IrOp::kTruncate:
      return args[0].Within(kMin32, kMax32) ? args[0] : FullRange(Type::kI32);
    default:
      return Bits(in, args);
  }
}

namespace {

Range Below(const Range& x, int64_t limit) { return Intersection(x, {kMin64, limit}); }
Range Above(const Range& x, int64_t limit) { return Intersection(x, {limit, kMax64}); }

}  // namespace

Range Restrict(const Range& x, Compare compare, const Range& y) {
  if (x.empty() || y.empty()) return {};
  switch (compare) {
    case Compare::kEq:
      return Intersection(x, y);
    case Compare::kNe:
      if (y.low != y.high) return x;
      if (x.low == y.low) return Above(x, x.low + 1);
      return x.high == y.low ? Below(x, x.high - 1) : x;
    case Compare::kLtS:
      return y.high == kMin64 ? Range{} : Below(x, y.high - 1);
    case Compare::kLeS:
      return Below(x, y.high);
    case Compare::kGtS:
      return y.low == kMax64 ? Range{} : Above(x, y.low + 1);
    case Compare::kGeS:
      return Above(x, y.low);
    case Compare::kLtU:  // below something that is not negative: not negative itself
      return y.low >= 0 ? Below(Above(x, 0), y.high - 1) : x;
    case Compare::kLeU:
      return y.low >= 0 ? Below(Above(x, 0), y.high) : x;
    case Compare::kGtU:
      return x.low >= 0 && y.low >= 0 ? Above(x, y.low + 1) : x;
    case Compare::kGeU:
      return x.low >= 0 && y.low >= 0 ? Above(x, y.low) : x;
  }
  return x;
}

}  // namespace qgpu::lower
