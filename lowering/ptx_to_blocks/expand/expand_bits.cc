#include "lowering/ptx_to_blocks/expand/expand_bits.h"

#include <algorithm>
#include <initializer_list>

#include "lowering/ptx_to_blocks/ir/loop_writer.h"

namespace qgpu::lower {
namespace {

int FindFirst(const IrFunction& function, std::initializer_list<IrOp> ops) {
  for (const IrBlock& block : function.blocks) {
    for (int value : block.instructions) {
      if (std::find(ops.begin(), ops.end(), function.at(value).op) != ops.end()) return value;
    }
  }
  return -1;
}

// The second factor's digits of 16 bits, the lowest first: each time the sum takes in the first factor times the digit
// and loses its own lowest digit. No sum of a product of digits, a digit and a carry wraps.
int WideProduct(IrFunction& f, int value) {
  const std::vector<int> args = f.at(value).args;
  LoopWriter loop(f, value);
  PairMath before = loop.Before();
  const Pair a = before.Split(args[0]), start = before.Split(args[1]), zero = {before.Constant(0), before.Constant(0)};
  const Pair b = loop.Variable(start), sum = loop.Variable(zero);
  const int left = loop.Variable(before.Constant(4));
  PairMath math = loop.Inside();
  const auto low = [&](int word) { return math.Op(IrOp::kAnd, {word, math.Constant(0xffff)}); };
  const auto high = [&](int word) { return math.Op(IrOp::kShr, {word, math.Constant(16)}); };
  const int digit = low(b.low);
  const auto times = [&](int a_digit, int sum_digit, int below) {
    const int product = math.Op(IrOp::kMad, {a_digit, digit, sum_digit});
    return below < 0 ? product : math.Op(IrOp::kAdd, {product, high(below)});
  };
  const int first = times(low(a.low), low(sum.low), -1), second = times(high(a.low), high(sum.low), first);
  const int third = times(low(a.high), low(sum.high), second), fourth = times(high(a.high), high(sum.high), third);
  const Pair now = {math.Op(IrOp::kMad, {third, math.Constant(1u << 16), low(second)}), fourth};
  loop.Next(sum, now);
  loop.Next(b, math.ShiftedRight(IrOp::kShr, b, math.Constant(16)));
  const int rest = math.Op(IrOp::kAdd, {left, math.Constant(~0u)});
  loop.Next(left, rest);
  loop.RepeatWhile(math.Test(Compare::kNe, rest, math.Constant(0)));
  return loop.After().Join(now);
}

// x & (x - 1) has lost its lowest one.
int DropOnes(IrFunction& f, int value) {
  const std::vector<int> args = f.at(value).args;
  LoopWriter loop(f, value);
  // More turns than there are bits change nothing.
  const int count = loop.Before().Op(IrOp::kMinU, {args[1], f.Constant(Type::kI32, 32)});
  const int bits = loop.Variable(args[0]), left = loop.Variable(count);
  PairMath math = loop.Inside();
  const int fewer = math.Op(IrOp::kAnd, {bits, math.Op(IrOp::kAdd, {bits, math.Constant(~0u)})});
  const int more = math.Test(Compare::kNe, left, math.Constant(0));
  const int result = math.Select(more, fewer, bits);
  loop.Next(bits, result);
  loop.Next(left, math.Op(IrOp::kAdd, {left, math.Constant(~0u)}));
  loop.RepeatWhile(more);
  return result;
}

// One byte a turn, the lowest first; the result is shifted in from above.
int Permute(IrFunction& f, int value) {
  const std::vector<int> args = f.at(value).args;
  LoopWriter loop(f, value);
  const int selector = loop.Variable(args[2]), done = loop.Variable(f.Constant(Type::kI32, 0));
  const int left = loop.Variable(f.Constant(Type::kI32, 4));
  PairMath math = loop.Inside();
  const auto constant = [&](uint32_t number) { return math.Constant(number); };
  const auto shift = [&](IrOp op, int a, uint32_t amount) { return math.Op(op, {a, constant(amount)}); };
  const int scaled = shift(IrOp::kShl, selector, 3);
  const int bit = math.Op(IrOp::kAnd, {scaled, constant(56)});
  const int low = math.Op(IrOp::kShr, {args[0], bit});
  const int high = math.Op(IrOp::kShr, {args[1], math.Op(IrOp::kAdd, {bit, constant(0 - 32u)})});
  const int byte = shift(IrOp::kShl, math.Op(IrOp::kOr, {low, high}), 24);
  const int sign = shift(IrOp::kShl, shift(IrOp::kSar, byte, 31), 24);
  const int wants_sign = math.Test(Compare::kNe, math.Op(IrOp::kAnd, {scaled, constant(64)}), constant(0));
  const int result = math.Op(IrOp::kOr, {math.Select(wants_sign, sign, byte), shift(IrOp::kShr, done, 8)});
  loop.Next(selector, shift(IrOp::kShr, selector, 4));
  loop.Next(done, result);
  const int rest = math.Op(IrOp::kAdd, {left, constant(~0u)});
  loop.Next(left, rest);
  loop.RepeatWhile(math.Test(Compare::kNe, rest, constant(0)));
  return result;
}

}  // namespace

void ExpandWideProducts(IrFunction& function) {
  const auto next = [&] { return FindFirst(function, {IrOp::kMulHighU}); };
  for (int value = next(); value >= 0; value = next()) {
    const int product = WideProduct(function, value);
    ReplaceInstruction(function, value, product);
  }
}

void ExpandBitLoops(IrFunction& function) {
  const auto next = [&] { return FindFirst(function, {IrOp::kDropOnes, IrOp::kPermute}); };
  for (int value = next(); value >= 0; value = next()) {
    ReplaceInstruction(function, value,
                       function.at(value).op == IrOp::kPermute ? Permute(function, value) : DropOnes(function, value));
  }
}

}  // namespace qgpu::lower
