#include "lowering/ptx_to_blocks/expand_division.h"

#include <algorithm>
#include <bit>

#include "lowering/ptx_to_blocks/expand.h"

namespace qgpu::lower {
namespace {

constexpr int kMaxLoops = 32;  // each takes a machine block at least

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

class Expander {
 public:
  Expander(IrFunction& function, const LaunchFacts& facts)
      : f_(function), ranges_(AnalyzeRanges(function, AnalyzeFlow(function), facts)) {}

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

 private:
  Group FindGroup() const {
    const FlowGraph flow = AnalyzeFlow(f_);
    Group group;
    for (int block : flow.order) {
      for (int value : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(value);
        if (IsDivision(in.op) && group.first < 0) {
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

  // ---- emission: at the end of block_, or in front of the instruction before_ in it ----

  int Add(IrInstruction in) {
    in.origin = origin_;
    int position = -1;
    if (before_ >= 0) {
      const std::vector<int>& list = f_.blocks[block_].instructions;
      position = static_cast<int>(std::find(list.begin(), list.end(), before_) - list.begin());
    }
    return f_.Add(block_, std::move(in), position);
  }
  int Emit(IrOp op, std::vector<int> args) {
    IrInstruction in;
    in.op = op;
    in.type = Type::kI32;
    in.args = std::move(args);
    return Add(std::move(in));
  }
  int Test(Compare compare, int a, int b) {
    IrInstruction in;
    in.op = IrOp::kCompare;
    in.type = Type::kPredicate;
    in.compare = compare;
    in.args = {a, b};
    return Add(std::move(in));
  }
  int Constant(uint32_t value) { return f_.Constant(Type::kI32, value); }
  int Negative(int value) { return Emit(IrOp::kSub, {Constant(0), value}); }
  int Select(int predicate, int a, int b) { return Emit(IrOp::kSelect, {predicate, a, b}); }

  Range RangeOf(int value) const {
    if (f_.IsConstant(value)) {
      const auto number = static_cast<int32_t>(f_.at(value).immediate);
      return {number, number};
    }
    if (value < static_cast<int>(ranges_.size()) && !ranges_[value].empty()) return ranges_[value];
    return {INT32_MIN, INT32_MAX};
  }
  bool MayBeNegative(int value) const { return RangeOf(value).low < 0; }
  bool MayBeZero(int value) const { return RangeOf(value).low <= 0 && RangeOf(value).high >= 0; }
  int Magnitude(int value) { return MayBeNegative(value) ? Emit(IrOp::kMaxS, {value, Negative(value)}) : value; }

  void Expand(Group group) {
    origin_ = f_.at(group.first).origin;
    group.is_signed = group.is_signed && (MayBeNegative(group.dividend) || MayBeNegative(group.divisor));
    if (f_.IsConstant(group.divisor) && DivideByConstant(group)) return;
    const int before = f_.at(group.first).block;
    const int after = SplitBefore(f_, group.first);
    block_ = before;
    before_ = -1;
    const int dividend = group.is_signed ? Magnitude(group.dividend) : group.dividend;
    const int divisor = group.is_signed ? Magnitude(group.divisor) : group.divisor;
    int quotient = -1, remainder = -1;
    AddLoop(before, after, dividend, divisor, group.quotients.empty() ? nullptr : &quotient, &remainder);
    block_ = after;
    before_ = group.first;
    if (!group.quotients.empty()) quotient = Signed(group, quotient);
    if (!group.remainders.empty() && group.is_signed && MayBeNegative(group.dividend)) {
      const int negative = Test(Compare::kLtS, group.dividend, Constant(0));
      remainder = Select(negative, Negative(remainder), remainder);
    }
    Replace(group, quotient, remainder);
  }

  // The quotient of the magnitudes with its sign; all ones for a division by zero.
  int Signed(const Group& group, int quotient) {
    if (group.is_signed) {
      const int sign = !MayBeNegative(group.dividend)  ? group.divisor
                       : !MayBeNegative(group.divisor) ? group.dividend
                                                       : Emit(IrOp::kXor, {group.dividend, group.divisor});
      quotient = Select(Test(Compare::kLtS, sign, Constant(0)), Negative(quotient), quotient);
    }
    if (!MayBeZero(group.divisor)) return quotient;
    return Select(Test(Compare::kEq, group.divisor, Constant(0)), Constant(~0u), quotient);
  }

  void Replace(const Group& group, int quotient, int remainder) {
    std::vector<int> replacement(f_.instructions.size());
    for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<int>(i);
    for (int value : group.quotients) replacement[value] = quotient;
    for (int value : group.remainders) replacement[value] = remainder;
    f_.ReplaceUses(replacement);
    for (const std::vector<int>* values : {&group.quotients, &group.remainders}) {
      for (int value : *values) {
        std::erase(f_.blocks[f_.at(value).block].instructions, value);
        f_.at(value).block = -1;
      }
    }
  }

  int AddPhi(int block, int entry, int start) {
    IrInstruction phi;
    phi.op = IrOp::kPhi;
    phi.type = f_.at(start).type;
    phi.args = {start};
    phi.phi_blocks = {entry};
    phi.origin = origin_;
    return f_.Add(block, std::move(phi));
  }
  void CloseLoop(int phi, int next) {
    f_.at(phi).args.push_back(next);
    f_.at(phi).phi_blocks.push_back(block_);
  }

  // The block between `entry` and `after`. The divisor, shifted so that its highest bit is that of the dividend, goes
  // down until it is the divisor again. Where the dividend is smaller, or the divisor 0, it is 0 for the one turn there
  // is, and so is the quotient's only bit 1: a smaller dividend needs the divisor itself.
  void AddLoop(int entry, int after, int dividend, int divisor, int* quotient, int* remainder) {
    const int distance = Emit(IrOp::kSub, {Emit(IrOp::kClz, {divisor}), Emit(IrOp::kClz, {dividend})});
    const int shift = quotient == nullptr ? distance : Emit(IrOp::kMaxS, {distance, Constant(0)});
    const int shifted = Emit(IrOp::kShl, {divisor, shift});
    const int loop = static_cast<int>(f_.blocks.size());
    f_.blocks.emplace_back();
    f_.blocks[entry].end.target = loop;
    block_ = loop;
    const int rest = AddPhi(loop, entry, dividend), scaled = AddPhi(loop, entry, shifted);
    const int bits = quotient == nullptr ? -1 : AddPhi(loop, entry, Constant(0));
    // Where it does not fit, the difference wraps to more than there was.
    *remainder = Emit(IrOp::kMinU, {rest, Emit(IrOp::kSub, {rest, scaled})});
    if (quotient != nullptr) {
      const int bit = Select(Test(Compare::kGeU, rest, scaled), Constant(1), Constant(0));
      *quotient = Emit(IrOp::kMad, {bits, Constant(2), bit});
      CloseLoop(bits, *quotient);
    }
    CloseLoop(rest, *remainder);
    CloseLoop(scaled, Emit(IrOp::kShr, {scaled, Constant(1)}));
    Terminator& end = f_.blocks[loop].end;
    end.origin = origin_;
    end.kind = TerminatorKind::kBranch;
    end.target = loop;
    end.other = after;
    const int more = Test(Compare::kGtU, scaled, divisor);
    f_.blocks[loop].end.condition = more;
  }

  bool DivideByConstant(const Group&) { return false; }

  IrFunction& f_;
  const std::vector<Range> ranges_;
  int block_ = 0;
  int before_ = -1;
  int origin_ = -1;
};

}  // namespace

absl::Status ExpandDivisions(IrFunction& function, const LaunchFacts& facts) { return Expander(function, facts).Run(); }

}  // namespace qgpu::lower
