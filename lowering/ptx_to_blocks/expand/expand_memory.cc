#include "lowering/ptx_to_blocks/expand/expand_memory.h"

#include <algorithm>

namespace qgpu::lower {
namespace {

class Expander {
 public:
  Expander(IrFunction& function, bool serial) : f_(function), serial_(serial) {}

  void Run() {
    for (size_t block = 0; block < f_.blocks.size(); ++block) {  // blocks that splitting adds come later
      for (size_t i = 0; i < f_.blocks[block].instructions.size(); ++i) {
        const int value = f_.blocks[block].instructions[i];
        const IrInstruction& in = f_.at(value);
        if (in.op != IrOp::kAtomic && !(in.op == IrOp::kStore && in.bytes < 4)) continue;
        Expand(value, static_cast<int>(block), i);
        if (serial_) break;  // the rest is another block
        i = position_ - 1;
      }
    }
    replacement_.resize(f_.instructions.size());
    for (size_t i = 0; i < replacement_.size(); ++i) {
      if (replacement_[i] == 0) replacement_[i] = static_cast<int>(i);
    }
    f_.ReplaceUses(replacement_);
  }

 private:
  // Replaces the instruction at `position` of `block`.
  void Expand(int value, int block, size_t position) {
    access_ = f_.at(value);
    f_.at(value).block = -1;
    std::vector<int>& list = f_.blocks[block].instructions;
    list.erase(list.begin() + static_cast<long>(position));
    block_ = block;
    position_ = position;
    if (serial_) SplitAt(f_, block, position);  // what follows
    if (access_.op == IrOp::kStore || access_.bytes == 2) return Piece(value);
    Begin();
    if (access_.bytes == 8) return Words(value);
    const int old = Load(0);
    Replace(value, old);
    Store(Updated(old, access_.args[1]), 0, Swaps() ? Compare32(Compare::kEq, old, access_.args[1]) : -1);
  }

  bool Swaps() const { return access_.atomic == AtomicOp::kCompareSwap; }

  void Replace(int value, int by) {
    replacement_.resize(f_.instructions.size());
    replacement_[value] = by;
  }

  // From here on instructions are part of what nobody may come between.
  void Begin() {
    if (!serial_) return;
    block_ = SplitAt(f_, block_, position_);
    position_ = 0;
    f_.blocks[block_].serial = true;
  }

  int Emit(IrOp op, Type type, std::vector<int> args) {
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    in.origin = access_.origin;
    return f_.Add(block_, std::move(in), static_cast<int>(position_++));
  }
  int Emit32(IrOp op, std::vector<int> args) { return Emit(op, Type::kI32, std::move(args)); }
  int Const32(uint32_t value) { return f_.Constant(Type::kI32, value); }
  int Compare32(Compare compare, int a, int b) {
    const int value = Emit(IrOp::kCompare, Type::kPredicate, {a, b});
    f_.at(value).compare = compare;
    return value;
  }

  // One word of the access, `offset` bytes behind its first.
  int Access(IrOp op, uint64_t offset, std::vector<int> args) {
    const int value = Emit(op, op == IrOp::kLoad ? Type::kI32 : Type::kNone, std::move(args));
    IrInstruction& in = f_.at(value);
    in.immediate = access_.immediate + offset;
    in.guard = access_.guard;
    in.negate = access_.negate;
    in.space = access_.space;
    in.alignment = offset == 0 ? access_.alignment : 4;
    return value;
  }
  int Load(uint64_t offset) { return Access(IrOp::kLoad, offset, {access_.args[0]}); }

  // Where `condition` holds too, unless it is -1.
  void Store(int value, uint64_t offset, int condition) {
    if (condition >= 0 && access_.guard >= 0) {
      int guard = access_.guard;
      if (access_.negate) guard = Emit(IrOp::kPredNot, Type::kPredicate, {guard});
      condition = Emit(IrOp::kPredAnd, Type::kPredicate, {guard, condition});
    }
    const int store = Access(IrOp::kStore, offset, {access_.args[0], value});
    if (condition < 0) return;
    f_.at(store).guard = condition;
    f_.at(store).negate = false;
  }

  // What the atomic operation puts in memory.
  int Updated(int old, int operand) {
    const Type type = f_.at(old).type;
    const auto plain = [&](IrOp op) { return Emit(op, type, {old, operand}); };
    switch (access_.atomic) {
      case AtomicOp::kAdd:
        return plain(IrOp::kAdd);
      case AtomicOp::kMinU:
        return plain(IrOp::kMinU);
      case AtomicOp::kMinS:
        return plain(IrOp::kMinS);
      case AtomicOp::kMaxU:
        return plain(IrOp::kMaxU);
      case AtomicOp::kMaxS:
        return plain(IrOp::kMaxS);
      case AtomicOp::kAnd:
        return plain(IrOp::kAnd);
      case AtomicOp::kOr:
        return plain(IrOp::kOr);
      case AtomicOp::kXor:
        return plain(IrOp::kXor);
      case AtomicOp::kExchange:
        return operand;
      case AtomicOp::kCompareSwap:
        return access_.args[2];
      case AtomicOp::kInc: {  // old >= limit ? 0 : old + 1
        const int wraps = Compare32(Compare::kGeU, old, operand);
        return Emit32(IrOp::kSelect, {wraps, Const32(0), Emit32(IrOp::kAdd, {old, Const32(1)})});
      }
      case AtomicOp::kDec:  // old == 0 or old > limit ? limit : old - 1
        return Emit32(IrOp::kMinU, {Emit32(IrOp::kAdd, {old, Const32(~0u)}), operand});
    }
    return old;
  }

  // 64 bits.
  void Words(int value) {
    const int low = Load(0), high = Load(4);
    const int wide_high = Emit(IrOp::kShl, Type::kI64, {Emit(IrOp::kZeroExt, Type::kI64, {high}), Const32(32)});
    const int old = Emit(IrOp::kOr, Type::kI64, {Emit(IrOp::kZeroExt, Type::kI64, {low}), wide_high});
    Replace(value, old);
    const int condition = Swaps() ? Compare32(Compare::kEq, old, access_.args[1]) : -1;
    const int now = Updated(old, access_.args[1]);
    const int now_low = Emit32(IrOp::kTruncate, {now});
    const int now_high = Emit32(IrOp::kTruncate, {Emit(IrOp::kShr, Type::kI64, {now, Const32(32)})});
    Store(now_low, 0, condition);
    Store(now_high, 4, condition);
  }

  // A store, or compare and swap, of 8 or 16 bits of a word. The lowest address bit of a 16-bit access stays, so that a
  // misaligned one traps.
  void Piece(int value) {
    const Type type = f_.at(access_.args[0]).type;
    const bool byte = access_.bytes == 1;
    const uint64_t inside = byte ? 3 : 2;
    const int ones = Const32(byte ? 0xff : 0xffff);
    const int address = Emit(IrOp::kAdd, type, {access_.args[0], f_.Constant(type, access_.immediate)});
    const int low = type == Type::kI32 ? address : Emit32(IrOp::kTruncate, {address});
    const int bit = Emit32(IrOp::kShl, {Emit32(IrOp::kAnd, {low, Const32(static_cast<uint32_t>(inside))}), Const32(3)});
    access_.args[0] = Emit(IrOp::kAnd, type, {address, f_.Constant(type, ~inside)});
    access_.immediate = 0;
    const int others = Emit32(IrOp::kXor, {Emit32(IrOp::kShl, {ones, bit}), Const32(~0u)});
    const int stored = Emit32(IrOp::kAnd, {access_.args.back(), ones});
    const int in_place = Emit32(IrOp::kShl, {stored, bit});
    const bool swaps = access_.op == IrOp::kAtomic;
    const int expected = swaps ? Emit32(IrOp::kAnd, {access_.args[1], ones}) : -1;
    Begin();
    const int word = Load(0);
    int condition = -1;
    if (swaps) {
      const int old = Emit32(IrOp::kAnd, {Emit32(IrOp::kShr, {word, bit}), ones});
      Replace(value, old);
      condition = Compare32(Compare::kEq, old, expected);
    }
    Store(Emit32(IrOp::kOr, {Emit32(IrOp::kAnd, {word, others}), in_place}), 0, condition);
  }

  IrFunction& f_;
  const bool serial_;
  std::vector<int> replacement_;  // 0: itself (value 0 is never an atomic operation's)
  IrInstruction access_;          // what is being expanded
  int block_ = 0;                 // where instructions are added
  size_t position_ = 0;
};

}  // namespace

void ExpandMemory(IrFunction& function, uint32_t threads) { Expander(function, threads > 1).Run(); }

void DropNeedlessSerial(IrFunction& function) {
  for (IrBlock& block : function.blocks) {
    const auto has = [&](IrOp op) {
      return std::any_of(block.instructions.begin(), block.instructions.end(),
                         [&](int value) { return function.at(value).op == op; });
    };
    block.serial = block.serial && has(IrOp::kLoad) && has(IrOp::kStore);
  }
}

}  // namespace qgpu::lower
