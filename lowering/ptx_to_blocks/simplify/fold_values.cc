// FoldValues: instructions whose value follows from those of their operands, or that a shorter one can compute.
#include <algorithm>
#include <bit>
#include <optional>

#include "lowering/ptx_to_blocks/simplify/constants.h"
#include "lowering/ptx_to_blocks/simplify/replacement.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"

namespace qgpu::lower {
namespace {

// Folds one instruction: returns the value that replaces it, or -1; may rewrite it in place (then *changed).
class Folder {
 public:
  Folder(IrFunction& function, bool* changed) : f_(function), changed_(changed) {}

  int Fold(int value) {
    if (f_.at(value).op == IrOp::kPhi) return FoldPhi(value);
    if (IsConvergent(f_.at(value).op) || f_.at(value).op == IrOp::kAtomic) return -1;
    if (f_.at(value).op == IrOp::kLoad || f_.at(value).op == IrOp::kStore) {
      FoldMemory(value);
      return f_.at(value).op == IrOp::kLoad && NeverHappens(f_, f_.at(value)) ? f_.Constant(f_.at(value).type, 0) : -1;
    }
    if (const int constant = FoldConstants(value); constant >= 0) return constant;
    ConstantToTheRight(value);
    switch (f_.at(value).op) {
      case IrOp::kCompare:
        return FoldCompare(value);
      case IrOp::kSelect:
        return FoldSelect(value);
      case IrOp::kPredAnd:
      case IrOp::kPredOr:
      case IrOp::kPredXor:
      case IrOp::kPredNot:
        return FoldPredicate(value);
      case IrOp::kTruncate:
        return FoldTruncate(value);
      case IrOp::kMad:
        return FoldMad(value);
      default:
        return FoldArithmetic(value);
    }
  }

  // Absorbs a negation into the flag of whatever the predicate controls.
  void FoldNegation(int& predicate, bool& negate) {
    while (predicate >= 0 && f_.at(predicate).op == IrOp::kPredNot) {
      predicate = f_.at(predicate).args[0];
      negate = !negate;
      *changed_ = true;
    }
  }

 private:
  std::optional<uint64_t> ConstantOf(int value) const {
    if (!f_.IsConstant(value)) return std::nullopt;
    return f_.at(value).immediate;
  }
  void Rewrite(int value, IrOp op, std::vector<int> args) {
    f_.at(value).op = op;
    f_.at(value).args = std::move(args);
    *changed_ = true;
  }

  int FoldPhi(int value) {
    int same = -1;
    for (int arg : f_.at(value).args) {
      if (arg == value || arg == same) continue;
      if (same >= 0) return -1;
      same = arg;
    }
    return same >= 0 ? same : f_.Constant(f_.at(value).type, 0);
  }

  void FoldMemory(int value) {
    FoldNegation(f_.at(value).guard, f_.at(value).negate);
    const int guard = f_.at(value).guard;
    if (guard >= 0 && f_.IsConstant(guard) && (f_.at(guard).immediate != 0) != f_.at(value).negate) {
      f_.at(value).guard = -1;
      f_.at(value).negate = false;
      *changed_ = true;
    }
    const int base = f_.at(value).args[0];
    if (f_.at(base).op == IrOp::kAdd && f_.IsConstant(f_.at(base).args[1])) {
      const int constant = f_.at(base).args[1];
      const uint64_t offset = f_.at(constant).immediate;
      f_.at(value).immediate += f_.at(base).type == Type::kI32
                                    ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(offset)))
                                    : offset;
      f_.at(value).args[0] = f_.at(base).args[0];
      *changed_ = true;
    }
  }

  int FoldConstants(int value) {
    const IrInstruction& in = f_.at(value);
    std::vector<uint64_t> constants;
    for (int arg : in.args) {
      if (!f_.IsConstant(arg)) return -1;
      constants.push_back(f_.at(arg).immediate);
    }
    const Type type = in.type;
    if (in.op == IrOp::kCompare) {
      const bool result = CompareValues(in.compare, constants[0], constants[1], f_.at(in.args[0]).type);
      return f_.Constant(Type::kPredicate, result);
    }
    if (in.op == IrOp::kSelect) return in.args[constants[0] != 0 ? 1 : 2];
    const std::optional<uint64_t> result = Evaluate(in.op, type, constants);
    return result ? f_.Constant(type, *result) : -1;
  }

  void ConstantToTheRight(int value) {
    IrInstruction& in = f_.at(value);
    if (in.args.size() < 2 || !f_.IsConstant(in.args[0]) || f_.IsConstant(in.args[1])) return;
    if (in.op == IrOp::kCompare) {
      in.compare = Swapped(in.compare);
    } else if (!IsCommutative(in.op)) {
      return;
    }
    std::swap(in.args[0], in.args[1]);
    *changed_ = true;
  }

  int FoldCompare(int value) {
    const Compare compare = f_.at(value).compare;
    const int a = f_.at(value).args[0], b = f_.at(value).args[1];
    if (a == b) return f_.Constant(Type::kPredicate, CompareValues(compare, 0, 0, Type::kI32));
    if (ConstantOf(b) == uint64_t{0} && (compare == Compare::kLtU || compare == Compare::kGeU)) {
      return f_.Constant(Type::kPredicate, compare == Compare::kGeU);
    }
    // A number that was made from a predicate: compare(p ? x : y, z).
    const IrInstruction select = f_.at(a);
    if (select.op == IrOp::kSelect && f_.IsConstant(b) && f_.IsConstant(select.args[1]) &&
        f_.IsConstant(select.args[2])) {
      const auto result = [&](int arm) {
        return CompareValues(compare, f_.at(arm).immediate, f_.at(b).immediate, select.type);
      };
      const bool when_true = result(select.args[1]), when_false = result(select.args[2]);
      if (when_true == when_false) return f_.Constant(Type::kPredicate, when_true);
      if (when_true) return select.args[0];
      Rewrite(value, IrOp::kPredNot, {select.args[0]});
    }
    return -1;
  }

  int FoldSelect(int value) {
    const std::vector<int> args = f_.at(value).args;
    if (const auto condition = ConstantOf(args[0])) return *condition != 0 ? args[1] : args[2];
    if (args[1] == args[2]) return args[1];
    if (f_.at(args[0]).op == IrOp::kPredNot) {
      Rewrite(value, IrOp::kSelect, {f_.at(args[0]).args[0], args[2], args[1]});
    }
    return -1;
  }

  int FoldPredicate(int value) {
    const IrInstruction in = f_.at(value);
    const IrInstruction a = f_.at(in.args[0]);
    if (in.op == IrOp::kPredNot) {
      if (a.op == IrOp::kPredNot) return a.args[0];
      if (a.op == IrOp::kCompare) {
        Rewrite(value, IrOp::kCompare, a.args);
        f_.at(value).compare = Inverted(a.compare);
      }
      return -1;
    }
    if (in.args[0] == in.args[1]) return in.op == IrOp::kPredXor ? f_.Constant(Type::kPredicate, 0) : in.args[0];
    const auto b = ConstantOf(in.args[1]);
    if (!b) return -1;
    if (in.op == IrOp::kPredAnd) return *b ? in.args[0] : in.args[1];
    if (in.op == IrOp::kPredOr) return *b ? in.args[1] : in.args[0];
    if (*b == 0) return in.args[0];
    Rewrite(value, IrOp::kPredNot, {in.args[0]});
    return -1;
  }

  int FoldTruncate(int value) {
    const IrInstruction in = f_.at(f_.at(value).args[0]);
    if (in.op == IrOp::kSignExt || in.op == IrOp::kZeroExt) return in.args[0];
    if (in.op == IrOp::kSpecial) return f_.Special(Type::kI32, static_cast<int>(in.immediate));
    return -1;
  }

  int FoldMad(int value) {
    const std::vector<int> args = f_.at(value).args;
    const auto a = ConstantOf(args[0]), b = ConstantOf(args[1]), c = ConstantOf(args[2]);
    if (a && b) {
      Rewrite(value, IrOp::kAdd, {args[2], f_.Constant(f_.at(value).type, *a * *b)});
    } else if (b == uint64_t{0}) {
      return args[2];
    } else if (b == uint64_t{1}) {
      Rewrite(value, IrOp::kAdd, {args[0], args[2]});
    } else if (c == uint64_t{0}) {
      Rewrite(value, IrOp::kMul, {args[0], args[1]});
    }
    return -1;
  }

  // Two operands of the same width as the result.
  int FoldArithmetic(int value) {
    const IrInstruction in = f_.at(value);
    if (in.args.size() != 2 || in.type == Type::kPredicate) return -1;
    const uint64_t ones = in.type == Type::kI64 ? ~uint64_t{0} : 0xffffffffu;
    const int x = in.args[0], y = in.args[1];
    if (x == y) {
      if (in.op == IrOp::kSub || in.op == IrOp::kXor) return f_.Constant(in.type, 0);
      if (in.op == IrOp::kAnd || in.op == IrOp::kOr || in.op == IrOp::kMinU || in.op == IrOp::kMinS ||
          in.op == IrOp::kMaxU || in.op == IrOp::kMaxS) {
        return x;
      }
    }
    const auto a = ConstantOf(x), b = ConstantOf(y);
    if (a == uint64_t{0} && (in.op == IrOp::kShl || in.op == IrOp::kShr || in.op == IrOp::kSar)) return x;
    if (in.op == IrOp::kAdd && f_.at(y).op == IrOp::kSub && ConstantOf(f_.at(y).args[0]) == uint64_t{0}) {
      Rewrite(value, IrOp::kSub, {x, f_.at(y).args[1]});
      return -1;
    }
    if (!b) return -1;
    return FoldWithConstant(value, x, *b, ones);
  }

  int FoldWithConstant(int value, int x, uint64_t b, uint64_t ones) {
    const IrInstruction in = f_.at(value);
    const unsigned bits = in.type == Type::kI64 ? 64 : 32;
    switch (in.op) {
      case IrOp::kAdd:
        if (b == 0) return x;
        break;
      case IrOp::kSub:
        if (b == 0) return x;
        Rewrite(value, IrOp::kAdd, {x, f_.Constant(in.type, (0 - b) & ones)});
        return -1;
      case IrOp::kMul:
        if (b == 0) return in.args[1];
        if (b == 1) return x;
        if (std::has_single_bit(b)) Rewrite(value, IrOp::kShl, {x, f_.Constant(Type::kI32, std::countr_zero(b))});
        return -1;
      case IrOp::kAnd:
        if (b == 0) return in.args[1];
        if (b == ones) return x;
        break;
      case IrOp::kOr:
        if (b == 0) return x;
        if (b == ones) return in.args[1];
        break;
      case IrOp::kXor:
        if (b == 0) return x;
        break;
      case IrOp::kShl:
      case IrOp::kShr:
        if (b == 0) return x;
        if (b >= bits) return f_.Constant(in.type, 0);
        break;
      case IrOp::kSar:
        if (b == 0) return x;
        if (b >= bits) Rewrite(value, IrOp::kSar, {x, f_.Constant(Type::kI32, bits - 1)});
        break;
      case IrOp::kDivU:
        if (std::has_single_bit(b)) Rewrite(value, IrOp::kShr, {x, f_.Constant(Type::kI32, std::countr_zero(b))});
        return b == 0 ? f_.Constant(in.type, ones) : -1;
      case IrOp::kRemU:
        if (std::has_single_bit(b)) Rewrite(value, IrOp::kAnd, {x, f_.Constant(in.type, b - 1)});
        return b == 0 ? x : -1;
      case IrOp::kDivS:
        if (b == ones) Rewrite(value, IrOp::kSub, {f_.Constant(in.type, 0), x});
        return b == 0 ? f_.Constant(in.type, ones) : b == 1 ? x : -1;
      case IrOp::kRemS:
        return b == 0 ? x : b == 1 || b == ones ? f_.Constant(in.type, 0) : -1;
      default:
        return -1;
    }
    JoinConstants(value, x, b, ones);
    return -1;
  }

  // (x op c1) op c2 is x op (c1 op c2).
  void JoinConstants(int value, int x, uint64_t b, uint64_t ones) {
    const IrInstruction in = f_.at(value), inner = f_.at(x);
    if (inner.op != in.op || inner.args.size() != 2) return;
    const auto c = ConstantOf(inner.args[1]);
    if (!c) return;
    const Type constant_type = f_.at(inner.args[1]).type;
    uint64_t joined;
    switch (in.op) {
      case IrOp::kAdd:
        joined = (*c + b) & ones;
        break;
      case IrOp::kAnd:
        joined = *c & b;
        break;
      case IrOp::kOr:
        joined = *c | b;
        break;
      case IrOp::kXor:
        joined = *c ^ b;
        break;
      case IrOp::kShl:
      case IrOp::kShr:
      case IrOp::kSar:
        joined = std::min<uint64_t>(*c + b, 64);  // both below 64
        break;
      default:
        return;
    }
    Rewrite(value, in.op, {inner.args[0], f_.Constant(constant_type, joined)});
  }

  IrFunction& f_;
  bool* changed_;
};

}  // namespace

bool FoldValues(IrFunction& function) {
  bool changed = false;
  Folder folder(function, &changed);
  std::vector<int> replacement = NoReplacement(function);
  const FlowGraph flow = AnalyzeFlow(function);
  for (int block : flow.order) {
    const std::vector<int> list = function.blocks[block].instructions;
    for (int value : list) {
      ForEachOperand(function.at(value), [&](int& operand) {
        while (operand < static_cast<int>(replacement.size()) && replacement[operand] != operand) {
          operand = replacement[operand];
        }
      });
      const int instead = folder.Fold(value);
      if (instead >= 0 && instead != value) {
        replacement[value] = instead;
        changed = true;
      }
    }
    Terminator& end = function.blocks[block].end;
    if (end.kind == TerminatorKind::kBranch) folder.FoldNegation(end.condition, end.negate);
  }
  Replace(function, replacement);
  return changed;
}

}  // namespace qgpu::lower
