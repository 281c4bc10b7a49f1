#include "lowering/ptx_to_blocks/expand/expand_division.h"

#include <bit>
#include <limits>
#include <optional>

#include "lowering/ptx_to_blocks/expand/divide_by_constant.h"
#include "lowering/ptx_to_blocks/ir/loop_writer.h"

namespace qgpu::lower {
namespace {

constexpr int kMaxLoops = 32;  // each takes a machine block at least
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

bool IsDivision(IrOp op) { return op == IrOp::kDivU || op == IrOp::kDivS || op == IrOp::kRemU || op == IrOp::kRemS; }
bool IsSigned(IrOp op) { return op == IrOp::kDivS || op == IrOp::kRemS; }
bool IsRemainder(IrOp op) { return op == IrOp::kRemU || op == IrOp::kRemS; }

// The divisions of the same operands that can share a loop in front of the first of them.
struct Group {
  int first = -1;
  int dividend = -1, divisor = -1;
  bool is_signed = false;
  std::vector<int> quotients, remainders;
};

// What both widths have in common. A derived class replaces the group it is given.
class Expander {
 public:
  Expander(IrFunction& function, const LaunchFacts& facts, Type type)
      : f_(function), type_(type), ranges_(AnalyzeRanges(function, AnalyzeFlow(function), facts)) {}
  virtual ~Expander() = default;

  absl::Status Run() {
    for (int loops = 0;; ++loops) {
      const Group group = FindGroup();
      if (group.first < 0) return absl::OkStatus();
      if (loops == kMaxLoops) {
        return absl::InvalidArgumentError(fmt::format(
            "needs more than {} machine blocks for its divisions alone, the ROM holds {}", kMaxLoops, kMaxLoops));
      }
      Expand(group);
    }
  }

 protected:
  virtual void Expand(Group group) = 0;

  Range RangeOf(int value) const {
    if (f_.IsConstant(value)) {
      const uint64_t bits = f_.at(value).immediate;
      const int64_t number = type_ == Type::kI64 ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
      return {number, number};
    }
    if (value < static_cast<int>(ranges_.size()) && !ranges_[value].empty()) return ranges_[value];
    if (type_ == Type::kI32) return {kMin32, kMax32};
    return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
  bool MayBeNegative(int value) const { return RangeOf(value).low < 0; }
  bool MayBeZero(int value) const { return RangeOf(value).low <= 0 && RangeOf(value).high >= 0; }
  bool Within(const Group& group, int64_t low, int64_t high) const {
    return RangeOf(group.dividend).Within(low, high) && RangeOf(group.divisor).Within(low, high);
  }

  // A value of the type that is divided, in front of `before`.
  int InFrontOf(int before, IrOp op, Type type, std::vector<int> args, Compare compare = Compare::kEq) {
    const std::vector<int>& list = f_.blocks[f_.at(before).block].instructions;
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.compare = compare;
    in.args = std::move(args);
    in.origin = f_.at(before).origin;
    const auto at = std::find(list.begin(), list.end(), before) - list.begin();
    return f_.Add(f_.at(before).block, std::move(in), static_cast<int>(at));
  }

  void Replace(const Group& group, int quotient, int remainder) {
    for (int value : group.quotients) ReplaceInstruction(f_, value, quotient);
    for (int value : group.remainders) ReplaceInstruction(f_, value, remainder);
  }

  IrFunction& f_;

 private:
  Group FindGroup() const {
    const FlowGraph flow = AnalyzeFlow(f_);
    Group group;
    for (int block : flow.order) {
      for (int value : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(value);
        if (IsDivision(in.op) && in.type == type_ && group.first < 0) {
          group.first = value;
          group.dividend = in.args[0];
          group.divisor = in.args[1];
          group.is_signed = IsSigned(in.op);
        }
        if (group.first >= 0 && flow.Dominates(f_.at(group.first).block, block)) AddTo(group, value);
      }
    }
    // a - a / b * b is a remainder that comes for nothing.
    const std::vector<int> quotients = group.quotients;
    for (int block : flow.order) {
      for (int value : f_.blocks[block].instructions) {
        for (int quotient : quotients) {
          if (IsDifferenceFromProduct(group, quotient, value)) group.remainders.push_back(value);
        }
      }
    }
    return group;
  }

  void AddTo(Group& group, int value) const {
    const IrInstruction& in = f_.at(value);
    if (!IsDivision(in.op) || IsSigned(in.op) != group.is_signed) return;
    if (in.args[0] != group.dividend || in.args[1] != group.divisor) return;
    (IsRemainder(in.op) ? group.remainders : group.quotients).push_back(value);
  }

  bool IsDifferenceFromProduct(const Group& group, int quotient, int value) const {
    const IrInstruction& in = f_.at(value);
    if (in.op != IrOp::kSub || in.args[0] != group.dividend) return false;
    const IrInstruction& product = f_.at(in.args[1]);
    if (product.op != IrOp::kMul) return false;
    return (product.args[0] == quotient && product.args[1] == group.divisor) ||
           (product.args[1] == quotient && product.args[0] == group.divisor);
  }

  const Type type_;
  const std::vector<Range> ranges_;
};

class NarrowExpander : public Expander {
 public:
  NarrowExpander(IrFunction& function, const LaunchFacts& facts) : Expander(function, facts, Type::kI32) {}

 private:
  void Expand(Group group) override {
    group.is_signed = group.is_signed && (MayBeNegative(group.dividend) || MayBeNegative(group.divisor));
    if (f_.IsConstant(group.divisor) && !MayBeZero(group.divisor)) return DivideByConstant(group);
    LoopWriter loop(f_, group.first);
    int quotient = -1, remainder = -1;
    WriteLoop(loop, group, group.quotients.empty() ? nullptr : &quotient, &remainder);
    PairMath math = loop.After();
    const auto negative = [&](int value) { return math.Op(IrOp::kSub, {math.Constant(0), value}); };
    const auto below_zero = [&](int value) { return math.Test(Compare::kLtS, value, math.Constant(0)); };
    if (!group.quotients.empty() && group.is_signed) {
      const int sign = !MayBeNegative(group.dividend)  ? group.divisor
                       : !MayBeNegative(group.divisor) ? group.dividend
                                                       : math.Op(IrOp::kXor, {group.dividend, group.divisor});
      quotient = math.Select(below_zero(sign), negative(quotient), quotient);
    }
    if (!group.quotients.empty() && MayBeZero(group.divisor)) {
      quotient = math.Select(math.Test(Compare::kEq, group.divisor, math.Constant(0)), math.Constant(~0u), quotient);
    }
    if (!group.remainders.empty() && group.is_signed && MayBeNegative(group.dividend)) {
      remainder = math.Select(below_zero(group.dividend), negative(remainder), remainder);
    }
    Replace(group, quotient, remainder);
  }

  int Magnitude(PairMath& math, int value) const {
    if (!MayBeNegative(value)) return value;
    return math.Op(IrOp::kMaxS, {value, math.Op(IrOp::kSub, {math.Constant(0), value})});
  }

  // The divisor, shifted so that its highest bit is that of the dividend, goes down until it is itself again. It is not
  // shifted where the dividend is the smaller one; for the remainder 0 does as well then. A divisor of 0 takes one
  // turn.
  void WriteLoop(LoopWriter& loop, const Group& group, int* quotient, int* remainder) const {
    PairMath before = loop.Before();
    const int dividend = group.is_signed ? Magnitude(before, group.dividend) : group.dividend;
    const int divisor = group.is_signed ? Magnitude(before, group.divisor) : group.divisor;
    int shift = before.Op(IrOp::kSub, {before.Op(IrOp::kClz, {divisor}), before.Op(IrOp::kClz, {dividend})});
    if (quotient != nullptr) shift = before.Op(IrOp::kMaxS, {shift, before.Constant(0)});
    const int shifted = before.Op(IrOp::kShl, {divisor, shift});
    const int rest = loop.Variable(dividend), scaled = loop.Variable(shifted);
    const int bits = quotient == nullptr ? -1 : loop.Variable(before.Constant(0));
    PairMath math = loop.Inside();
    if (quotient != nullptr) {
      const int bit = math.Select(math.Test(Compare::kGeU, rest, scaled), math.Constant(1), math.Constant(0));
      *quotient = math.Op(IrOp::kMad, {bits, math.Constant(2), bit});
      loop.Next(bits, *quotient);
    }
    // Where it does not fit, the difference wraps to more than there was.
    *remainder = math.Op(IrOp::kMinU, {rest, math.Op(IrOp::kSub, {rest, scaled})});
    loop.Next(rest, *remainder);
    loop.Next(scaled, math.Op(IrOp::kShr, {scaled, math.Constant(1)}));
    loop.RepeatWhile(math.Test(Compare::kGtU, scaled, divisor));
  }

  void DivideByConstant(const Group& group) {
    PairMath math(
        f_, [&](IrInstruction in) { return InFrontOf(group.first, in.op, in.type, std::move(in.args), in.compare); });
    const auto divisor = static_cast<uint32_t>(f_.at(group.divisor).immediate);
    const int quotient =
        QuotientByConstant(f_, math, group.dividend, RangeOf(group.dividend), divisor, group.is_signed);
    const int remainder =
        group.remainders.empty() ? -1 : math.Op(IrOp::kMad, {quotient, math.Constant(0 - divisor), group.dividend});
    Replace(group, quotient, remainder);
  }
};

class WideExpander : public Expander {
 public:
  WideExpander(IrFunction& function, const LaunchFacts& facts) : Expander(function, facts, Type::kI64) {}

 private:
  void Expand(Group group) override {
    if (group.is_signed && !MayBeNegative(group.dividend) && !MayBeNegative(group.divisor)) group.is_signed = false;
    if (Within(group, 0, kMaxU32)) return In32Bits(group, false);
    if (group.is_signed && Within(group, kMin32, kMax32)) return In32Bits(group, true);
    if (f_.IsConstant(group.divisor) && DivideByConstant(group)) return;
    LoopWriter loop(f_, group.first);
    const Pair divisor = loop.Before().Split(group.divisor);
    const Pair dividend = loop.Before().Split(group.dividend);
    Pair quotient, remainder;
    WriteLoop(loop, group, dividend, divisor, group.quotients.empty() ? nullptr : &quotient, &remainder);
    PairMath math = loop.After();
    const auto below_zero = [&](int high) { return math.Test(Compare::kLtS, high, math.Constant(0)); };
    const auto negative = [&](Pair pair) { return math.Difference({math.Constant(0), math.Constant(0)}, pair); };
    int quotient_value = -1, remainder_value = -1;
    if (!group.quotients.empty()) {
      if (group.is_signed) {
        const int sign = math.Op(IrOp::kXor, {dividend.high, divisor.high});
        quotient = math.Select(below_zero(sign), negative(quotient), quotient);
      }
      if (MayBeZero(group.divisor)) {
        const int any = math.Op(IrOp::kOr, {divisor.low, divisor.high});
        const Pair ones = {math.Constant(~0u), math.Constant(~0u)};
        quotient = math.Select(math.Test(Compare::kEq, any, math.Constant(0)), ones, quotient);
      }
      quotient_value = math.Join(quotient);
    }
    if (!group.remainders.empty()) {
      if (group.is_signed) remainder = math.Select(below_zero(dividend.high), negative(remainder), remainder);
      remainder_value = math.Join(remainder);
    }
    Replace(group, quotient_value, remainder_value);
  }

  // As the upper half of a product with ceil(2^(64 + s) / divisor), where that has 64 bits and is exact: its error
  // times the greatest dividend stays below 2^(64 + s).
  bool DivideByConstant(const Group& group) {
    using Unsigned = unsigned __int128;
    const Range range = RangeOf(group.dividend);
    const auto number = static_cast<int64_t>(f_.at(group.divisor).immediate);
    const bool negative_divisor = group.is_signed && number < 0;
    const uint64_t divisor = negative_divisor ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const uint64_t greatest = group.is_signed  ? uint64_t{1} << 63
                              : range.low >= 0 ? static_cast<uint64_t>(range.high)
                                               : ~uint64_t{0};
    if (divisor < 2) return false;
    int s = 0;
    Unsigned factor = 0;
    for (; s < 64; ++s) {
      const Unsigned power = Unsigned{1} << (64 + s);
      factor = (power + divisor - 1) / divisor;
      if ((factor * divisor - power) * greatest < power && factor >> 64 == 0) break;
    }
    if (s == 64) return false;
    const auto op = [&](IrOp op, std::vector<int> args) {
      return InFrontOf(group.first, op, Type::kI64, std::move(args));
    };
    const int zero = f_.Constant(Type::kI64, 0);
    int magnitude = group.dividend, below_zero = -1;
    if (group.is_signed) {
      below_zero = InFrontOf(group.first, IrOp::kCompare, Type::kPredicate, {group.dividend, zero}, Compare::kLtS);
      magnitude = op(IrOp::kSelect, {below_zero, op(IrOp::kSub, {zero, magnitude}), magnitude});
    }
    const bool is_power = std::has_single_bit(divisor);
    const auto shift = static_cast<uint64_t>(is_power ? std::countr_zero(divisor) : s);
    if (!is_power) {
      magnitude = op(IrOp::kMulHighU, {magnitude, f_.Constant(Type::kI64, static_cast<uint64_t>(factor))});
    }
    int quotient = op(IrOp::kShr, {magnitude, f_.Constant(Type::kI32, shift)});
    if (group.is_signed) {
      const int negative = op(IrOp::kSub, {zero, quotient});
      quotient = op(IrOp::kSelect,
                    {below_zero, negative_divisor ? quotient : negative, negative_divisor ? negative : quotient});
    }
    const int remainder =
        group.remainders.empty() ? -1 : op(IrOp::kSub, {group.dividend, op(IrOp::kMul, {quotient, group.divisor})});
    Replace(group, quotient, remainder);
    return true;
  }

  // Both operands are known to be 32-bit numbers.
  void In32Bits(const Group& group, bool is_signed) {
    const int at = group.first;
    const auto low = [&](int value) { return InFrontOf(at, IrOp::kTruncate, Type::kI32, {value}); };
    const int dividend = low(group.dividend), divisor = low(group.divisor);
    const IrOp extend = is_signed ? IrOp::kSignExt : IrOp::kZeroExt;
    const auto divided = [&](IrOp op) {
      return InFrontOf(at, extend, Type::kI64, {InFrontOf(at, op, Type::kI32, {dividend, divisor})});
    };
    int quotient = group.quotients.empty() ? -1 : divided(is_signed ? IrOp::kDivS : IrOp::kDivU);
    if (quotient >= 0 && !is_signed && MayBeZero(group.divisor)) {
      const int zero =
          InFrontOf(at, IrOp::kCompare, Type::kPredicate, {divisor, f_.Constant(Type::kI32, 0)}, Compare::kEq);
      quotient = InFrontOf(at, IrOp::kSelect, Type::kI64, {zero, f_.Constant(Type::kI64, ~uint64_t{0}), quotient});
    }
    if (quotient >= 0 && is_signed && RangeOf(group.dividend).low == kMin32 && MayBeNegative(group.divisor)) {
      quotient = WithoutOverflow(at, f_.at(quotient).args[0], dividend, divisor);
    }
    const int remainder = group.remainders.empty() ? -1 : divided(is_signed ? IrOp::kRemS : IrOp::kRemU);
    Replace(group, quotient, remainder);
  }

  // -2^31 / -1 is 2^31 here.
  int WithoutOverflow(int at, int quotient, int dividend, int divisor) {
    PairMath math(f_, [&](IrInstruction in) { return InFrontOf(at, in.op, in.type, std::move(in.args), in.compare); });
    const int by_minus_one = math.Test(Compare::kEq, divisor, math.Constant(~0u));
    const int smallest = math.Test(Compare::kEq, dividend, math.Constant(1u << 31));
    const int sign = math.Op(IrOp::kSar, {quotient, math.Constant(31)});
    const int overflows = math.Logic(IrOp::kPredAnd, by_minus_one, smallest);
    return math.Join({quotient, math.Select(overflows, math.Constant(0), sign)});
  }

  static Pair Magnitude(PairMath& math, Pair a) {
    const int zero = math.Constant(0);
    return math.Select(math.Test(Compare::kLtS, a.high, zero), math.Difference({zero, zero}, a), a);
  }

  // As for 32 bits, but turns are counted: comparing pairs takes more.
  void WriteLoop(LoopWriter& loop, const Group& group, Pair dividend, Pair divisor, Pair* quotient, Pair* remainder) {
    PairMath before = loop.Before();
    if (group.is_signed && MayBeNegative(group.dividend)) dividend = Magnitude(before, dividend);
    if (group.is_signed && MayBeNegative(group.divisor)) divisor = Magnitude(before, divisor);
    const int distance = before.Op(IrOp::kSub, {before.LeadingZeros(divisor), before.LeadingZeros(dividend)});
    const int shift = before.Op(IrOp::kMaxS, {distance, before.Constant(0)});
    const Pair shifted = before.ShiftedLeft(divisor, shift);
    const Pair zero = {before.Constant(0), before.Constant(0)};
    const Pair rest = loop.Variable(dividend), scaled = loop.Variable(shifted);
    const Pair bits = quotient == nullptr ? Pair{} : loop.Variable(zero);
    const int turns = loop.Variable(before.Op(IrOp::kAdd, {shift, before.Constant(1)}));
    PairMath math = loop.Inside();
    // A divisor of at most 2^63 differs from what is left by less than that, or by that from 0: a sign tells.
    const Pair difference = math.Difference(rest, scaled);
    const bool sign_tells = group.is_signed || !MayBeNegative(group.divisor);
    const int less = sign_tells ? math.Test(Compare::kLtS, difference.high, math.Constant(0))
                                : math.Compared(Compare::kLtU, rest, scaled);
    *remainder = math.Select(less, rest, difference);
    if (quotient != nullptr) {
      const int bit = math.Select(less, math.Constant(0), math.Constant(1));
      const int carried = math.Op(IrOp::kShr, {bits.low, math.Constant(31)});
      *quotient = {math.Op(IrOp::kMad, {bits.low, math.Constant(2), bit}),
                   math.Op(IrOp::kMad, {bits.high, math.Constant(2), carried})};
      loop.Next(bits, *quotient);
    }
    loop.Next(rest, *remainder);
    loop.Next(scaled, math.ShiftedRight(IrOp::kShr, scaled, math.Constant(1)));
    const int left = math.Op(IrOp::kAdd, {turns, math.Constant(~0u)});
    loop.Next(turns, left);
    loop.RepeatWhile(math.Test(Compare::kNe, left, math.Constant(0)));
  }
};

}  // namespace

absl::Status ExpandWideDivisions(IrFunction& function, const LaunchFacts& facts) {
  return WideExpander(function, facts).Run();
}

absl::Status ExpandDivisions(IrFunction& function, const LaunchFacts& facts) {
  return NarrowExpander(function, facts).Run();
}

}  // namespace qgpu::lower
