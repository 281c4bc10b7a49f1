#include "lowering/ptx_to_blocks/simplify/fold_ranges.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "lowering/ptx_to_blocks/ir/range_transfer.h"

namespace qgpu::lower {
namespace {

class Folder {
 public:
  Folder(IrFunction& function, const LaunchFacts& facts)
      : f_(function), flow_(AnalyzeFlow(function)), ranges_(function, flow_, facts) {}

  bool Run() {
    std::vector<int> replacement(f_.instructions.size());
    for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<int>(i);
    bool changed = false;
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        const int instead = Instead(block, value);
        if (instead < 0 || instead == value) continue;
        replacement.resize(f_.instructions.size(), -1);
        replacement[value] = instead;
        changed = true;
      }
    }
    for (size_t i = 0; i < replacement.size(); ++i) {
      if (replacement[i] < 0) replacement[i] = static_cast<int>(i);
    }
    if (changed) f_.ReplaceUses(replacement);
    return changed;
  }

 private:
  std::optional<uint32_t> ConstantOf(int value) const {
    if (!f_.IsConstant(value)) return std::nullopt;
    return static_cast<uint32_t>(f_.at(value).immediate);
  }

  // What is the same as `value`, or -1.
  int Instead(int block, int value) {
    const IrInstruction& in = f_.at(value);
    if (in.op == IrOp::kCompare && f_.at(in.args[0]).type == Type::kI32) return Decided(block, in);
    if (in.type != Type::kI32 || in.args.size() != 2) return -1;
    const std::optional<uint32_t> b = ConstantOf(in.args[1]);
    if (!b) return -1;
    switch (in.op) {
      case IrOp::kAnd: {
        const Range range = ranges_.At(block, in.args[0]);
        if (range.empty() || range.low < 0) return -1;
        const uint32_t bits = range.high == 0 ? 0 : ~0u >> std::countl_zero(static_cast<uint32_t>(range.high));
        return (bits & ~*b) == 0 ? in.args[0] : -1;
      }
      case IrOp::kSar:
      case IrOp::kShr:
        return Extended(block, in, *b);
      case IrOp::kMinS:
      case IrOp::kMaxS: {
        const Range range = ranges_.At(block, in.args[0]);
        const auto limit = static_cast<int32_t>(*b);
        const bool reached = in.op == IrOp::kMinS ? range.high > limit : range.low < limit;
        return range.empty() || reached ? -1 : in.args[0];
      }
      case IrOp::kMinU: {
        const Range range = ranges_.At(block, in.args[0]);
        return !range.empty() && range.low >= 0 && range.high <= int64_t{*b} ? in.args[0] : -1;
      }
      default:
        return -1;
    }
  }

  // x << k >> k, where x fits in what is left.
  int Extended(int block, const IrInstruction& in, uint32_t amount) const {
    const IrInstruction& up = f_.at(in.args[0]);
    if (up.op != IrOp::kShl || amount == 0 || amount > 31 || ConstantOf(up.args[1]) != amount) return -1;
    const Range range = ranges_.At(block, up.args[0]);
    const int64_t size = int64_t{1} << (32 - amount);
    if (range.empty()) return -1;
    const bool fits = in.op == IrOp::kSar ? range.Within(-size / 2, size / 2 - 1) : range.Within(0, size - 1);
    return fits ? up.args[0] : -1;
  }

  int Decided(int block, const IrInstruction& in) {
    const Range a = ranges_.At(block, in.args[0]), b = ranges_.At(block, in.args[1]);
    if (a.empty() || b.empty()) return -1;
    const bool may_hold = !Restrict(a, in.compare, b).empty() && !Restrict(b, Swapped(in.compare), a).empty();
    if (!may_hold) return f_.Constant(Type::kPredicate, 0);
    const Compare opposite = Inverted(in.compare);
    const bool may_fail = !Restrict(a, opposite, b).empty() && !Restrict(b, Swapped(opposite), a).empty();
    return may_fail ? -1 : f_.Constant(Type::kPredicate, 1);
  }

  IrFunction& f_;
  const FlowGraph flow_;
  const Ranges ranges_;
};

}  // namespace

bool FoldByRanges(IrFunction& function, const LaunchFacts& facts) {
  LaunchFacts shape = facts;
  shape.words.clear();
  return Folder(function, shape).Run();
}

}  // namespace qgpu::lower
