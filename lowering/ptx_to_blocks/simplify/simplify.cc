#include "lowering/ptx_to_blocks/simplify/simplify.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

namespace qgpu::lower {
namespace {

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

// The result of an op of 32 or 64 bits whose operands are constants.
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

// A load or store whose guard is known to be false.
bool NeverHappens(const IrFunction& function, const IrInstruction& in) {
  return in.guard >= 0 && function.IsConstant(in.guard) && (function.at(in.guard).immediate != 0) == in.negate;
}

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

std::vector<int> Identity(const IrFunction& function) {
  std::vector<int> same(function.instructions.size());
  for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<int>(i);
  return same;
}

void EraseFrom(IrFunction& function, const std::vector<int>& replacement) {
  for (IrBlock& block : function.blocks) {
    std::erase_if(block.instructions, [&](int value) {
      const bool gone = value < static_cast<int>(replacement.size()) && replacement[value] != value;
      if (gone) function.at(value).block = -1;
      return gone;
    });
  }
}

void DropPhiOperand(IrFunction& function, int block, int predecessor) {
  for (int value : function.blocks[block].instructions) {
    IrInstruction& phi = function.at(value);
    if (phi.op != IrOp::kPhi) break;
    for (size_t i = 0; i < phi.args.size();) {
      if (phi.phi_blocks[i] == predecessor) {
        phi.args.erase(phi.args.begin() + static_cast<long>(i));
        phi.phi_blocks.erase(phi.phi_blocks.begin() + static_cast<long>(i));
      } else {
        ++i;
      }
    }
  }
}

void RenamePhiBlock(IrFunction& function, int block, int from, int to) {
  for (int value : function.blocks[block].instructions) {
    IrInstruction& phi = function.at(value);
    if (phi.op != IrOp::kPhi) break;
    std::replace(phi.phi_blocks.begin(), phi.phi_blocks.end(), from, to);
  }
}

bool HasPhis(const IrFunction& function, int block) {
  const std::vector<int>& list = function.blocks[block].instructions;
  return !list.empty() && function.at(list[0]).op == IrOp::kPhi;
}

// A branch whose condition is known, or whose ways are the same, becomes a jump.
bool FoldBranches(IrFunction& function, const FlowGraph& flow) {
  bool changed = false;
  for (int block : flow.order) {
    Terminator& end = function.blocks[block].end;
    if (end.kind != TerminatorKind::kBranch) continue;
    int dropped = -1;
    if (end.target != end.other) {
      if (!function.IsConstant(end.condition)) continue;
      const bool taken = (function.at(end.condition).immediate != 0) != end.negate;
      dropped = taken ? end.other : end.target;
      if (!taken) end.target = end.other;
    }
    end.kind = TerminatorKind::kJump;
    end.condition = -1;
    end.negate = false;
    if (dropped >= 0) DropPhiOperand(function, dropped, block);
    changed = true;
  }
  return changed;
}

// Unreachable blocks feed no phi any more.
bool DropUnreachable(IrFunction& function) {
  const FlowGraph flow = AnalyzeFlow(function);
  bool changed = false;
  for (size_t block = 0; block < function.blocks.size(); ++block) {
    if (flow.position[block] >= 0) continue;
    for (int successor : function.blocks[block].Successors()) {
      if (flow.position[successor] >= 0) DropPhiOperand(function, successor, static_cast<int>(block));
    }
    for (int value : function.blocks[block].instructions) function.at(value).block = -1;
    changed = changed || !function.blocks[block].instructions.empty() ||
              function.blocks[block].end.kind != TerminatorKind::kExit;
    function.blocks[block] = {};
  }
  return changed;
}

// A jump to a block that nobody else goes to: one block.
bool JoinBlocks(IrFunction& function) {
  const FlowGraph flow = AnalyzeFlow(function);
  for (int block : flow.order) {
    Terminator& end = function.blocks[block].end;
    if (end.kind != TerminatorKind::kJump || end.target == block || end.target == 0) continue;
    const int next = end.target;
    if (flow.predecessors[next].size() != 1 || HasPhis(function, next)) continue;
    if (function.blocks[block].serial || function.blocks[next].serial) continue;
    for (int value : function.blocks[next].instructions) {
      function.at(value).block = block;
      function.blocks[block].instructions.push_back(value);
    }
    function.blocks[next].instructions.clear();
    const int origin = end.origin;
    end = function.blocks[next].end;
    if (end.origin < 0) end.origin = origin;
    for (int successor : function.blocks[block].Successors()) RenamePhiBlock(function, successor, next, block);
    function.blocks[next].end = {};
    return true;
  }
  return false;
}

// An endless loop of blocks that only jump.
bool IsEmptyCycle(const IrFunction& function, int start) {
  int block = start;
  for (size_t steps = 0; steps <= function.blocks.size(); ++steps) {
    const IrBlock& at = function.blocks[block];
    if (!at.instructions.empty() || at.end.kind != TerminatorKind::kJump) return false;
    block = at.end.target;
  }
  return true;
}

// Goes around empty blocks that only jump.
bool BypassEmptyBlocks(IrFunction& function) {
  const FlowGraph flow = AnalyzeFlow(function);
  for (int empty : flow.order) {
    const Terminator& end = function.blocks[empty].end;
    if (empty == 0 || !function.blocks[empty].instructions.empty() || end.kind != TerminatorKind::kJump) continue;
    const int next = end.target;
    if (IsEmptyCycle(function, empty)) continue;
    for (int predecessor : flow.predecessors[empty]) {
      const std::vector<int>& others = flow.predecessors[next];
      const bool already = std::find(others.begin(), others.end(), predecessor) != others.end();
      if (already && HasPhis(function, next)) continue;
      for (int value : function.blocks[next].instructions) {
        IrInstruction& phi = function.at(value);
        if (phi.op != IrOp::kPhi) break;
        for (size_t i = 0; i < phi.args.size(); ++i) {
          if (phi.phi_blocks[i] != empty) continue;
          phi.args.push_back(phi.args[i]);
          phi.phi_blocks.push_back(predecessor);
          break;
        }
      }
      Terminator& from = function.blocks[predecessor].end;
      if (from.target == empty) from.target = next;
      if (from.other == empty) from.other = next;
      if (flow.predecessors[empty].size() == 1) DropPhiOperand(function, next, empty);
      return true;
    }
  }
  return false;
}

}  // namespace

bool FoldValues(IrFunction& function) {
  bool changed = false;
  Folder folder(function, &changed);
  std::vector<int> replacement = Identity(function);
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
  function.ReplaceUses(replacement);
  EraseFrom(function, replacement);
  return changed;
}

bool MergeEqualValues(IrFunction& function) {
  using Key = std::tuple<IrOp, Type, Compare, uint64_t, std::vector<int>, int>;
  const FlowGraph flow = AnalyzeFlow(function);
  std::map<Key, std::vector<int>> seen;
  std::vector<int> replacement = Identity(function);
  bool changed = false;
  for (int block : flow.order) {
    for (int value : function.blocks[block].instructions) {
      IrInstruction& in = function.at(value);
      ForEachOperand(in, [&](int& operand) { operand = replacement[operand]; });
      if (IsAccess(in.op) || IsConvergent(in.op)) continue;
      Key key{in.op, in.type, in.compare, in.immediate, in.args, -1};
      if (in.op == IrOp::kPhi) {
        std::vector<std::pair<int, int>> sources;
        for (size_t i = 0; i < in.args.size(); ++i) sources.push_back({in.phi_blocks[i], in.args[i]});
        std::sort(sources.begin(), sources.end());
        std::vector<int>& flat = std::get<4>(key);
        flat.clear();
        for (const auto& [from, arg] : sources) flat.insert(flat.end(), {from, arg});
        std::get<5>(key) = block;
      } else if (IsCommutative(in.op) && in.args[0] > in.args[1] && !function.IsConstant(in.args[1])) {
        std::swap(std::get<4>(key)[0], std::get<4>(key)[1]);
      }
      std::vector<int>& equals = seen[key];
      const auto found = std::find_if(equals.begin(), equals.end(),
                                      [&](int e) { return flow.Dominates(function.at(e).block, block); });
      if (found == equals.end()) {
        equals.push_back(value);
      } else {
        replacement[value] = *found;
        changed = true;
      }
    }
  }
  function.ReplaceUses(replacement);
  EraseFrom(function, replacement);
  return changed;
}

bool RemoveDeadValues(IrFunction& function) {
  std::vector<bool> needed(function.instructions.size(), false);
  std::vector<int> work;
  const auto need = [&](int value) {
    if (value >= 0 && !needed[value]) {
      needed[value] = true;
      work.push_back(value);
    }
  };
  for (const IrBlock& block : function.blocks) {
    need(block.end.condition);
    for (int value : block.instructions) {
      if (HasSideEffect(function.at(value)) && !NeverHappens(function, function.at(value))) need(value);
    }
  }
  while (!work.empty()) {
    const int value = work.back();
    work.pop_back();
    ForEachOperand(std::as_const(function).at(value), need);
  }
  bool changed = false;
  for (IrBlock& block : function.blocks) {
    const size_t before = block.instructions.size();
    std::erase_if(block.instructions, [&](int value) {
      if (!needed[value]) function.at(value).block = -1;
      return !needed[value];
    });
    changed = changed || block.instructions.size() != before;
  }
  return changed;
}

bool SimplifyFlow(IrFunction& function) {
  bool changed = FoldBranches(function, AnalyzeFlow(function));
  changed |= DropUnreachable(function);
  while (JoinBlocks(function) || BypassEmptyBlocks(function)) {
    DropUnreachable(function);
    changed = true;
  }
  return changed;
}

void Simplify(IrFunction& function) {
  for (bool changed = true; changed;) {
    changed = SimplifyFlow(function);
    changed |= FoldValues(function);
    changed |= MergeEqualValues(function);
    changed |= RemoveDeadValues(function);
  }
}

}  // namespace qgpu::lower
