#include "lowering/ptx_to_blocks/narrow/pairs.h"

#include "lowering/ptx_to_blocks/expand/expand.h"

namespace qgpu::lower {

Compare Unsigned(Compare compare) {
  switch (compare) {
    case Compare::kLtS:
      return Compare::kLtU;
    case Compare::kLeS:
      return Compare::kLeU;
    case Compare::kGtS:
      return Compare::kGtU;
    case Compare::kGeS:
      return Compare::kGeU;
    default:
      return compare;
  }
}

namespace {

// Without equality.
Compare Strict(Compare compare) {
  switch (compare) {
    case Compare::kLeS:
      return Compare::kLtS;
    case Compare::kGeS:
      return Compare::kGtS;
    case Compare::kLeU:
      return Compare::kLtU;
    case Compare::kGeU:
      return Compare::kGtU;
    default:
      return compare;
  }
}

}  // namespace

int PairMath::Op(IrOp op, Type type, std::vector<int> args) {
  IrInstruction in;
  in.op = op;
  in.type = type;
  in.args = std::move(args);
  return emit_(std::move(in));
}

int PairMath::Test(Compare compare, int a, int b) {
  IrInstruction in;
  in.op = IrOp::kCompare;
  in.type = Type::kPredicate;
  in.compare = compare;
  in.args = {a, b};
  return emit_(std::move(in));
}

int PairMath::Logic(IrOp op, int p, int q) {
  IrInstruction in;
  in.op = op;
  in.type = Type::kPredicate;
  in.args = op == IrOp::kPredNot ? std::vector<int>{p} : std::vector<int>{p, q};
  return emit_(std::move(in));
}

Pair PairMath::Select(int predicate, Pair a, Pair b) {
  return {Select(predicate, a.low, b.low), Select(predicate, a.high, b.high)};
}

Pair PairMath::Split(int wide) {
  const int up = Op(IrOp::kShr, Type::kI64, {wide, Constant(32)});
  return {Op(IrOp::kTruncate, {wide}), Op(IrOp::kTruncate, {up})};
}

int PairMath::Join(Pair pair) {
  const int up = Op(IrOp::kShl, Type::kI64, {Op(IrOp::kZeroExt, Type::kI64, {pair.high}), Constant(32)});
  return Op(IrOp::kOr, Type::kI64, {Op(IrOp::kZeroExt, Type::kI64, {pair.low}), up});
}

// ---- sums and products ----

int PairMath::ConstantPlus(int predicate, uint32_t base, uint32_t change) {
  return Select(predicate, Constant(base + change), Constant(base));
}

int PairMath::SumHigh(Pair a, Pair b, int low) {
  if (f_.IsConstant(a.low) || f_.IsConstant(a.high)) std::swap(a, b);
  if (IsConstant(b.low, 0)) return Op(IrOp::kAdd, {a.high, b.high});
  const int carry = Test(Compare::kLtU, low, a.low);
  if (f_.IsConstant(b.high)) {
    return Op(IrOp::kAdd, {a.high, ConstantPlus(carry, static_cast<uint32_t>(f_.at(b.high).immediate), 1)});
  }
  return Op(IrOp::kAdd, {Op(IrOp::kAdd, {a.high, b.high}), ConstantPlus(carry, 0, 1)});
}

int PairMath::DifferenceHigh(Pair a, Pair b) {
  const int borrow = Test(Compare::kLtU, a.low, b.low);
  if (f_.IsConstant(a.high)) {
    return Op(IrOp::kSub, {ConstantPlus(borrow, static_cast<uint32_t>(f_.at(a.high).immediate), ~0u), b.high});
  }
  if (f_.IsConstant(b.high)) {
    return Op(IrOp::kAdd, {a.high, ConstantPlus(borrow, 0 - static_cast<uint32_t>(f_.at(b.high).immediate), ~0u)});
  }
  return Op(IrOp::kAdd, {Op(IrOp::kSub, {a.high, b.high}), ConstantPlus(borrow, 0, ~0u)});
}

Pair PairMath::Sum(Pair a, Pair b) {
  const int low = Op(IrOp::kAdd, {a.low, b.low});
  return {low, SumHigh(a, b, low)};
}

Pair PairMath::Difference(Pair a, Pair b) { return {Op(IrOp::kSub, {a.low, b.low}), DifferenceHigh(a, b)}; }

int PairMath::ProductHigh(Pair a, Pair b) {
  const Emit32Function emit = [this](IrOp op, std::vector<int> args) { return Op(op, std::move(args)); };
  const int high = ExpandHighProduct(f_, emit, a.low, b.low, /*is_signed=*/false);
  return Op(IrOp::kMad, {a.high, b.low, Op(IrOp::kMad, {b.high, a.low, high})});
}

// ---- shifts ----

int PairMath::ShiftedLeftHigh(Pair a, int amount) {
  if (f_.IsConstant(amount)) {
    const auto n = static_cast<uint32_t>(f_.at(amount).immediate);
    if (n == 0) return a.high;
    if (n >= 64) return Constant(0);
    if (n >= 32) return Op(IrOp::kShl, {a.low, Constant(n - 32)});
    return Op(IrOp::kMad, {a.high, Constant(1u << n), Op(IrOp::kShr, {a.low, Constant(32 - n)})});
  }
  // Each of the three is 0 where another applies; at 32 the last two are equal.
  const int stays = Op(IrOp::kShl, {a.high, amount});
  const int crosses = Op(IrOp::kShr, {a.low, Op(IrOp::kSub, {Constant(32), amount})});
  const int far = Op(IrOp::kShl, {a.low, Op(IrOp::kAdd, {amount, Constant(0 - 32u)})});
  return Op(IrOp::kOr, {Op(IrOp::kOr, {stays, crosses}), far});
}

Pair PairMath::ShiftedLeft(Pair a, int amount) { return {Op(IrOp::kShl, {a.low, amount}), ShiftedLeftHigh(a, amount)}; }

int PairMath::ShiftedRightLow(IrOp op, Pair a, int amount) {
  if (f_.IsConstant(amount)) {
    const auto n = static_cast<uint32_t>(f_.at(amount).immediate);
    if (n == 0) return a.low;
    if (n >= 32) return Op(op, {a.high, Constant(n - 32)});
    return Op(IrOp::kMad, {a.high, Constant(1u << (32 - n)), Op(IrOp::kShr, {a.low, Constant(n)})});
  }
  const int stays = Op(IrOp::kShr, {a.low, amount});
  const int crosses = Op(IrOp::kShl, {a.high, Op(IrOp::kSub, {Constant(32), amount})});
  const int near = Op(IrOp::kOr, {stays, crosses});
  const int far = Op(op, {a.high, Op(IrOp::kAdd, {amount, Constant(0 - 32u)})});
  if (op == IrOp::kShr) return Op(IrOp::kOr, {near, far});
  return Select(Test(Compare::kLtU, amount, Constant(32)), near, far);
}

Pair PairMath::ShiftedRight(IrOp op, Pair a, int amount) {
  return {ShiftedRightLow(op, a, amount), Op(op, {a.high, amount})};
}

// ---- comparisons ----

int PairMath::Compared(Compare compare, Pair a, Pair b) {
  if (compare == Compare::kEq || compare == Compare::kNe) {
    const int equal = Logic(IrOp::kPredAnd, Test(Compare::kEq, a.low, b.low), Test(Compare::kEq, a.high, b.high));
    return compare == Compare::kEq ? equal : Logic(IrOp::kPredNot, equal, -1);
  }
  if (IsConstant(b.low, 0) &&
      (compare == Compare::kLtS || compare == Compare::kGeS || compare == Compare::kLtU || compare == Compare::kGeU)) {
    return Test(compare, a.high, b.high);
  }
  const int decides = Test(Strict(compare), a.high, b.high);
  const int low = Test(Unsigned(compare), a.low, b.low);
  const int ties = Logic(IrOp::kPredAnd, Test(Compare::kEq, a.high, b.high), low);
  return Logic(IrOp::kPredOr, decides, ties);
}

int PairMath::LeadingZeros(Pair a) {
  const int below = Op(IrOp::kAdd, {Op(IrOp::kClz, {a.low}), Constant(32)});
  return Select(Test(Compare::kEq, a.high, Constant(0)), below, Op(IrOp::kClz, {a.high}));
}

}  // namespace qgpu::lower
