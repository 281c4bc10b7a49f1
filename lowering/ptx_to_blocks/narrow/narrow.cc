#include "lowering/ptx_to_blocks/narrow/narrow.h"

#include <algorithm>
#include <limits>
#include <map>

#include "lowering/ptx_to_blocks/narrow/halves.h"

namespace qgpu::lower {
namespace {

constexpr int64_t kProvenLimit = int64_t{1} << 28;  // addresses proven to be within +-this
constexpr int64_t kSmallTerms = int64_t{1} << 27;   // what may be added to a clamped term in all
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

class Narrower {
 public:
  Narrower(IrFunction& function, const LaunchFacts& facts, std::vector<ParameterWord>* words)
      : f_(function),
        flow_(AnalyzeFlow(function)),
        facts_(facts),
        analysis_(function, flow_, facts),
        ranges_(analysis_.values()),
        halves_(function, ranges_, words) {}

  absl::Status Run() {
    std::vector<int> wide;
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (f_.at(value).type == Type::kI64) wide.push_back(value);
      }
    }
    QGPU_RETURN_IF_ERROR(halves_.Make(wide));
    for (int block : flow_.order) {
      const std::vector<int> list = f_.blocks[block].instructions;
      for (int value : list) NarrowConsumer(value);
    }
    return halves_.status();
  }

 private:
  const Range& RangeOf(int value) const { return ranges_[value]; }
  bool Proven(int value) const { return RangeOf(value).empty() || RangeOf(value).Within(-kProvenLimit, kProvenLimit); }

  int Const32(int64_t value) { return f_.Constant(Type::kI32, static_cast<uint64_t>(value)); }

  int Low(int value) { return halves_.Low(value); }
  int InsertAfter(int after, IrOp op, std::vector<int> args) { return halves_.InsertAfter(after, op, std::move(args)); }

  // ---- addresses ----

  // The 32-bit form of address term `value`: equal to it where it is within +-2^28, and otherwise at least 2^28 away
  // from 0 on the same side, so that with `small` or less added to it no address is valid. -1 where there is no way.
  int Checked(int value, int64_t small) {
    if (Proven(value)) return Low(value);
    const auto known = checked_.find({value, small});
    if (known != checked_.end()) return known->second;
    const int result = MakeChecked(value, small);
    checked_[{value, small}] = result;
    return result;
  }

  // Whether no address base + offset can be outside of 32 bits and valid in its low half.
  bool LowHalfSuffices(int base, int64_t offset) const {
    const Range& range = RangeOf(base);
    const __int128 low = static_cast<__int128>(range.low) + offset, high = static_cast<__int128>(range.high) + offset;
    return range.empty() || (low >= kProvenLimit - (int64_t{1} << 32) && high <= kMaxU32);
  }

  // Whether base + offset is out of range whatever happens: then any address that traps does.
  bool NeverValid(int base, int64_t offset) const {
    const Range& range = RangeOf(base);
    return static_cast<__int128>(range.high) + offset < 0 || static_cast<__int128>(range.low) + offset > kProvenLimit;
  }

  int64_t Magnitude(int value) const { return std::max(std::abs(RangeOf(value).low), std::abs(RangeOf(value).high)); }

  int MakeChecked(int value, int64_t small) {
    const IrInstruction in = f_.at(value);
    switch (in.op) {
      case IrOp::kSignExt:
      case IrOp::kZeroExt:
        return Clamped(value, 1);
      case IrOp::kShl:
        if (!f_.IsConstant(in.args[1]) || f_.at(in.args[1]).immediate > 20) return -1;
        return Scaled(in.args[0], int64_t{1} << f_.at(in.args[1]).immediate);
      case IrOp::kMul: {
        if (!f_.IsConstant(in.args[1])) return -1;
        const auto factor = static_cast<int64_t>(f_.at(in.args[1]).immediate);
        return factor > 0 && factor <= 1 << 20 ? Scaled(in.args[0], factor) : -1;
      }
      case IrOp::kAdd:
      case IrOp::kSub:
        for (int known : {1, 0}) {
          const int term = in.args[known], unknown = in.args[1 - known];
          if (!Proven(term) || Magnitude(term) > small || (in.op == IrOp::kSub && known == 0)) continue;
          const int checked = Checked(unknown, small - Magnitude(term));
          return checked < 0 ? -1
                             : InsertAfter(halves_.PlaceOf(value), in.op,
                                           known == 1 ? std::vector<int>{checked, Low(term)}
                                                      : std::vector<int>{Low(term), checked});
        }
        return -1;
      case IrOp::kSelect: {
        const int a = Checked(in.args[1], small), b = Checked(in.args[2], small);
        return a < 0 || b < 0 ? -1 : InsertAfter(halves_.PlaceOf(value), IrOp::kSelect, {in.args[0], a, b});
      }
      case IrOp::kPhi:
        return CheckedPhi(value, small);
      default:
        return -1;
    }
  }

  // `index` times `factor`, checked as by Checked: an extension, or what joins and selections choose among extensions.
  int Scaled(int index, int64_t factor) {
    const auto known = scaled_.find({index, factor});
    if (known != scaled_.end()) return known->second;
    const IrInstruction in = f_.at(index);
    int result = -1;
    if (in.op == IrOp::kSignExt || in.op == IrOp::kZeroExt) {
      result = Clamped(index, factor);
    } else if (in.op == IrOp::kConst) {
      const auto number = static_cast<int64_t>(in.immediate);
      if (std::abs(number / 2) <= kProvenLimit / factor / 2) result = Const32(number * factor);
    } else if (in.op == IrOp::kSelect) {
      const int a = Scaled(in.args[1], factor), b = Scaled(in.args[2], factor);
      if (a >= 0 && b >= 0) result = InsertAfter(halves_.PlaceOf(index), IrOp::kSelect, {in.args[0], a, b});
    } else if (in.op == IrOp::kPhi) {
      result = InsertAfter(halves_.PlaceOf(index), IrOp::kPhi, {});
      scaled_[{index, factor}] = result;
      for (size_t i = 0; i < in.args.size(); ++i) {
        const int arg = Scaled(in.args[i], factor);
        if (arg < 0) return scaled_[{index, factor}] = -1;
        f_.at(result).args.push_back(arg);
        f_.at(result).phi_blocks.push_back(in.phi_blocks[i]);
      }
    }
    return scaled_[{index, factor}] = result;
  }

  // `extended` (a sign or zero extension) times `factor`, with the index clamped.
  int Clamped(int extended, int64_t factor) {
    const IrInstruction in = f_.at(extended);
    const int64_t limit = (kProvenLimit + factor - 1) / factor;
    int index = in.args[0];
    int last = extended;
    const auto add = [&](IrOp op, int b) { index = last = InsertAfter(last, op, {index, b}); };
    if (in.op == IrOp::kZeroExt) {
      add(IrOp::kMinU, Const32(limit));
    } else {
      add(IrOp::kMinS, Const32(limit));
      add(IrOp::kMaxS, Const32(-limit));
    }
    if (factor != 1) add(IrOp::kMul, Const32(factor));
    return index;
  }

  // A pointer that walks: where it starts is checked, and the turns of a launch cannot carry it far.
  int CheckedPhi(int value, int64_t small) {
    Induction induction;
    if (!IsInduction(f_, value, &induction)) return -1;
    if (induction.step_low < -small || induction.step_high > small) return -1;
    const int64_t step = std::max(std::abs(induction.step_low), std::abs(induction.step_high));
    if (facts_.token_budget > small / std::max<int64_t>(step, 1)) return -1;
    const int phi = InsertAfter(halves_.PlaceOf(value), IrOp::kPhi, {});
    checked_[{value, small}] = phi;
    const IrInstruction in = f_.at(value);
    for (size_t i = 0; i < in.args.size(); ++i) {
      int arg;
      if (in.args[i] == value) {
        arg = phi;
      } else if (std::find(induction.starts.begin(), induction.starts.end(), in.args[i]) != induction.starts.end()) {
        arg = Checked(in.args[i], small - step * facts_.token_budget);
        if (arg < 0) return -1;
      } else {
        const int constant = f_.at(in.args[i]).args[1];
        arg = InsertAfter(halves_.PlaceOf(in.args[i]), IrOp::kAdd, {phi, Low(constant)});
        checked_[{in.args[i], small}] = arg;
      }
      f_.at(phi).args.push_back(arg);
      f_.at(phi).phi_blocks.push_back(in.phi_blocks[i]);
    }
    return phi;
  }

  // ---- what takes 64-bit values and gives something else ----

  void NarrowConsumer(int value) {
    const IrInstruction in = f_.at(value);
    if (in.op == IrOp::kTruncate) {
      f_.at(value).op = IrOp::kAdd;  // a copy, which Simplify removes
      f_.at(value).args = {Low(in.args[0]), Const32(0)};
    } else if (in.op == IrOp::kCompare && f_.at(in.args[0]).type == Type::kI64) {
      NarrowCompare(value);
    } else if ((in.op == IrOp::kLoad || in.op == IrOp::kStore) && f_.at(in.args[0]).type == Type::kI32) {
      f_.at(value).immediate = static_cast<uint32_t>(in.immediate);  // an address that wraps, see CheckAccesses
    } else if (in.op == IrOp::kLoad || in.op == IrOp::kStore) {
      const auto offset = static_cast<int64_t>(in.immediate);
      const int64_t small = kSmallTerms - std::min(std::abs(offset), kSmallTerms);
      int address = ProvenHere(value) ? Low(in.args[0]) : -1;
      if (address < 0) address = offset >= -kSmallTerms && offset <= kSmallTerms ? Checked(in.args[0], small) : -1;
      if (address < 0 && LowHalfSuffices(in.args[0], offset)) address = Low(in.args[0]);
      if (address < 0 && NeverValid(in.args[0], offset)) {
        address = Const32(kProvenLimit);
        f_.at(value).immediate = 0;
      }
      if (address < 0) {
        address = InsideOrOutOfRange(value, in.args[0], in.immediate);
        f_.at(value).immediate = 0;
      }
      f_.at(value).args[0] = address;
      f_.at(value).immediate = static_cast<uint32_t>(f_.at(value).immediate);
    }
  }

  // Whether the address of an access is small, as far as the branches on the way to it and its guard tell.
  bool ProvenHere(int access) const {
    const IrInstruction& in = f_.at(access);
    const Range range = analysis_.At(in.block, in.args[0], in.guard, in.negate);
    const __int128 offset = static_cast<int64_t>(in.immediate);
    return range.empty() || (range.low + offset >= -kProvenLimit && range.high + offset <= kProvenLimit);
  }

  // The lower half of base + offset where that is all of it, otherwise an address that is out of range.
  int InsideOrOutOfRange(int access, int base, uint64_t offset) {
    PairMath math = halves_.InFrontOf(access);
    const Pair added = {Const32(static_cast<uint32_t>(offset)), Const32(static_cast<uint32_t>(offset >> 32))};
    const Pair address = offset == 0 ? halves_.Both(base) : math.Sum(halves_.Both(base), added);
    return math.Select(math.Test(Compare::kEq, address.high, Const32(0)), address.low, Const32(kProvenLimit));
  }

  void NarrowCompare(int value) {
    const IrInstruction in = f_.at(value);
    const Range a = RangeOf(in.args[0]), b = RangeOf(in.args[1]);
    const bool as_unsigned = a.Within(0, kMaxU32) && b.Within(0, kMaxU32);
    const bool as_signed = a.Within(kMin32, kMax32) && b.Within(kMin32, kMax32);
    if (!as_unsigned && !as_signed) {
      const int result =
          halves_.InFrontOf(value).Compared(in.compare, halves_.Both(in.args[0]), halves_.Both(in.args[1]));
      f_.at(value).op = IrOp::kPredOr;  // a copy, which Simplify removes
      f_.at(value).args = {result, f_.Constant(Type::kPredicate, 0)};
      return;
    }
    const int low_a = Low(in.args[0]), low_b = Low(in.args[1]);  // may add constants: no reference survives that
    f_.at(value).args = {low_a, low_b};
    // Where both fit int32 but not both are positive, the unsigned order of sign-extended values is that of their low
    // halves.
    f_.at(value).compare = as_unsigned ? Unsigned(in.compare) : in.compare;
  }

  IrFunction& f_;
  const FlowGraph flow_;
  const LaunchFacts& facts_;
  const Ranges analysis_;
  const std::vector<Range>& ranges_;
  Halves halves_;
  std::map<std::pair<int, int64_t>, int> scaled_;   // by value and factor
  std::map<std::pair<int, int64_t>, int> checked_;  // by value and what is added
};

}  // namespace

void FoldAlignment(IrFunction& function, const LaunchFacts& facts) {
  for (const IrBlock& block : function.blocks) {
    for (int value : block.instructions) {
      const IrInstruction in = function.at(value);
      if (in.op != IrOp::kAnd || !function.IsConstant(in.args[1])) continue;
      const uint64_t mask = function.at(in.args[1]).immediate;
      const uint64_t all = in.type == Type::kI64 ? ~uint64_t{0} : 0xffffffffu;
      const bool clears = (mask | 3) == all, keeps = mask <= 3;
      const int low = clears || keeps ? LowBits(function, facts, in.args[0]) : -1;
      if (low < 0) continue;
      const uint64_t bits = static_cast<uint64_t>(low);
      const int zero = function.Constant(in.type, 0);
      const int other = function.Constant(in.type, clears ? (0 - (bits & ~mask)) & all : bits & mask);
      function.at(value).op = IrOp::kAdd;
      function.at(value).args = {clears ? in.args[0] : zero, other};
    }
  }
}

absl::Status Narrow(IrFunction& function, const LaunchFacts& facts, std::vector<ParameterWord>* words) {
  return Narrower(function, facts, words).Run();
}

}  // namespace qgpu::lower
