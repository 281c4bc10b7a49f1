#include "lowering/ptx_to_blocks/narrow.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "lowering/ptx_to_blocks/expand.h"

namespace qgpu::lower {
namespace {

constexpr int64_t kProvenLimit = int64_t{1} << 28;  // addresses proven to be within +-this
constexpr int64_t kSmallTerms = int64_t{1} << 27;   // what may be added to a clamped term in all
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

class Narrower {
 public:
  Narrower(IrFunction& function, const LaunchFacts& facts)
      : f_(function), flow_(AnalyzeFlow(function)), facts_(facts), ranges_(AnalyzeRanges(function, flow_, facts)) {}

  absl::Status Run() {
    std::vector<int> wide;
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (f_.at(value).type == Type::kI64) wide.push_back(value);
      }
    }
    // Twins first, operands afterwards: phis refer to values that come later.
    for (int value : wide) QGPU_RETURN_IF_ERROR(MakeTwin(value));
    for (int value : wide) FillTwin(value);
    for (int block : flow_.order) {
      const std::vector<int> list = f_.blocks[block].instructions;
      for (int value : list) QGPU_RETURN_IF_ERROR(NarrowConsumer(value));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(int value, const std::string& why) const {
    const int origin = f_.at(value).origin;
    const SlotOrigin at = origin < 0 ? SlotOrigin{} : f_.origins[origin];
    const std::string cuda = at.cuda_line == 0 ? "" : fmt::format(" (CUDA line {})", at.cuda_line);
    return absl::UnimplementedError(fmt::format("{}:{}{}: {}: {}", f_.source, at.ptx_line, cuda, at.text, why));
  }

  const Range& RangeOf(int value) const { return ranges_[value]; }
  bool Proven(int value) const { return RangeOf(value).empty() || RangeOf(value).Within(-kProvenLimit, kProvenLimit); }

  int Const32(int64_t value) { return f_.Constant(Type::kI32, static_cast<uint64_t>(value)); }

  // Adds an I32 instruction right after `after`, or at the top of its block's ordinary instructions for a phi.
  int InsertAfter(int after, IrOp op, std::vector<int> args) {
    const int block = f_.at(after).block;
    const std::vector<int>& list = f_.blocks[block].instructions;
    auto at = std::find(list.begin(), list.end(), after) + 1;
    if (op != IrOp::kPhi) {
      while (at != list.end() && f_.at(*at).op == IrOp::kPhi) ++at;
    }
    IrInstruction in;
    in.op = op;
    in.type = Type::kI32;
    in.args = std::move(args);
    in.origin = f_.at(after).origin;
    return f_.Add(block, std::move(in), static_cast<int>(at - list.begin()));
  }

  // ---- the low half of every 64-bit value ----

  absl::Status MakeTwin(int value) {
    const IrInstruction in = f_.at(value);
    if (in.op == IrOp::kSignExt || in.op == IrOp::kZeroExt) {
      low_[value] = in.args[0];
      return absl::OkStatus();
    }
    if (HighProduct(value)) return absl::OkStatus();
    if (in.op == IrOp::kShr || in.op == IrOp::kSar) {
      const bool fits =
          in.op == IrOp::kShr ? RangeOf(in.args[0]).Within(0, kMaxU32) : RangeOf(in.args[0]).Within(kMin32, kMax32);
      if (!fits) return Refuse(value, "shifts bits of a 64-bit value down that are not known to be copies of its sign");
    }
    if ((in.op == IrOp::kShl || in.op == IrOp::kShr || in.op == IrOp::kSar) && f_.at(in.args[1]).type != Type::kI32) {
      return Refuse(value, "has a shift amount of 64 bits");
    }
    low_[value] = InsertAfter(value, in.op, {});
    return absl::OkStatus();
  }

  // The upper half of a product of two 32-bit numbers, shifted down further: how LLVM divides by constants.
  bool HighProduct(int value) {
    const IrInstruction in = f_.at(value);
    if ((in.op != IrOp::kShr && in.op != IrOp::kSar) || !f_.IsConstant(in.args[1])) return false;
    const IrInstruction product = f_.at(in.args[0]);
    const uint64_t amount = f_.at(in.args[1]).immediate;
    const IrOp extend = in.op == IrOp::kShr ? IrOp::kZeroExt : IrOp::kSignExt;
    if (product.op != IrOp::kMul || f_.at(product.args[0]).op != extend || amount < 32 || amount > 63) return false;
    const IrInstruction& factor = f_.at(product.args[1]);
    const bool is_signed = in.op == IrOp::kSar;
    const auto number = static_cast<int64_t>(factor.immediate);
    const bool small = is_signed ? number >= kMin32 && number <= kMax32 : number >= 0 && number <= kMaxU32;
    if (factor.op != extend && !(factor.op == IrOp::kConst && small)) return false;
    const int a = f_.at(product.args[0]).args[0];
    const int b = factor.op == extend ? factor.args[0] : Const32(number);
    int last = value;
    const Emit32Function emit = [&](IrOp op, std::vector<int> args) {
      last = InsertAfter(last, op, std::move(args));
      return last;
    };
    const int high = ExpandHighProduct(f_, emit, a, b, is_signed);
    low_[value] = emit(in.op, {high, Const32(static_cast<int64_t>(amount) - 32)});
    filled_.insert(value);
    return true;
  }

  int Low(int value) {
    const IrInstruction& in = f_.at(value);
    if (in.type != Type::kI64) return value;
    if (in.op == IrOp::kConst) return f_.Constant(Type::kI32, in.immediate);
    if (in.op == IrOp::kSpecial) return f_.Special(Type::kI32, static_cast<int>(in.immediate));
    return low_.at(value);
  }

  void FillTwin(int value) {
    const IrInstruction in = f_.at(value);
    if (in.op == IrOp::kSignExt || in.op == IrOp::kZeroExt || filled_.count(value) != 0) return;
    std::vector<int> args;
    for (int arg : in.args) args.push_back(Low(arg));
    IrInstruction& twin = f_.at(low_.at(value));
    twin.args = std::move(args);
    twin.phi_blocks = in.phi_blocks;
  }

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
                             : InsertAfter(low_.at(value), in.op,
                                           known == 1 ? std::vector<int>{checked, Low(term)}
                                                      : std::vector<int>{Low(term), checked});
        }
        return -1;
      case IrOp::kSelect: {
        const int a = Checked(in.args[1], small), b = Checked(in.args[2], small);
        return a < 0 || b < 0 ? -1 : InsertAfter(low_.at(value), IrOp::kSelect, {in.args[0], a, b});
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
      if (a >= 0 && b >= 0) result = InsertAfter(low_.at(index), IrOp::kSelect, {in.args[0], a, b});
    } else if (in.op == IrOp::kPhi) {
      result = InsertAfter(low_.at(index), IrOp::kPhi, {});
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
    const int phi = InsertAfter(low_.at(value), IrOp::kPhi, {});
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
        arg = InsertAfter(low_.at(in.args[i]), IrOp::kAdd, {phi, Low(constant)});
        checked_[{in.args[i], small}] = arg;
      }
      f_.at(phi).args.push_back(arg);
      f_.at(phi).phi_blocks.push_back(in.phi_blocks[i]);
    }
    return phi;
  }

  // ---- what takes 64-bit values and gives something else ----

  absl::Status NarrowConsumer(int value) {
    const IrInstruction in = f_.at(value);
    if (in.op == IrOp::kTruncate) {
      f_.at(value).op = IrOp::kAdd;  // a copy, which Simplify removes
      f_.at(value).args = {Low(in.args[0]), Const32(0)};
    } else if (in.op == IrOp::kCompare && f_.at(in.args[0]).type == Type::kI64) {
      return NarrowCompare(value);
    } else if ((in.op == IrOp::kLoad || in.op == IrOp::kStore) && f_.at(in.args[0]).type == Type::kI32) {
      f_.at(value).immediate = static_cast<uint32_t>(in.immediate);  // an address that wraps, see CheckAccesses
    } else if (in.op == IrOp::kLoad || in.op == IrOp::kStore) {
      const auto offset = static_cast<int64_t>(in.immediate);
      const int64_t small = kSmallTerms - std::min(std::abs(offset), kSmallTerms);
      int address = offset >= -kSmallTerms && offset <= kSmallTerms ? Checked(in.args[0], small) : -1;
      if (address < 0 && LowHalfSuffices(in.args[0], offset)) address = Low(in.args[0]);
      if (address < 0 && NeverValid(in.args[0], offset)) {
        address = Const32(kProvenLimit);
        f_.at(value).immediate = 0;
      }
      if (address < 0) {
        return Refuse(
            value,
            "this address is neither proven nor checked to stay within the machine's 32-bit addresses for these "
            "arguments; a 32-bit int index into the array (a[i * stride]) is checked");
      }
      f_.at(value).args[0] = address;
      f_.at(value).immediate = static_cast<uint32_t>(f_.at(value).immediate);
    }
    return absl::OkStatus();
  }

  absl::Status NarrowCompare(int value) {
    const IrInstruction in = f_.at(value);
    const Range a = RangeOf(in.args[0]), b = RangeOf(in.args[1]);
    const bool as_unsigned = a.Within(0, kMaxU32) && b.Within(0, kMaxU32);
    const bool as_signed = a.Within(kMin32, kMax32) && b.Within(kMin32, kMax32);
    if (!as_unsigned && !as_signed)
      return Refuse(value, "compares 64-bit values that are not proven to fit in 32 bits");
    IrInstruction& out = f_.at(value);
    out.args = {Low(in.args[0]), Low(in.args[1])};
    // Where both fit int32 but not both are positive, the unsigned order of sign-extended values is that of their low
    // halves.
    out.compare = as_unsigned ? Unsigned(in.compare) : in.compare;
    return absl::OkStatus();
  }

  static Compare Unsigned(Compare compare) {
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

  IrFunction& f_;
  const FlowGraph flow_;
  const LaunchFacts& facts_;
  const std::vector<Range> ranges_;
  std::set<int> filled_;                            // values whose twin has its operands already
  std::map<int, int> low_;                          // of instructions; constants and special words: Low
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

absl::Status Narrow(IrFunction& function, const LaunchFacts& facts) { return Narrower(function, facts).Run(); }

}  // namespace qgpu::lower
