#include "lowering/ptx_to_blocks/expand_bits.h"

#include "lowering/ptx_to_blocks/loop_writer.h"

namespace qgpu::lower {
namespace {

int FindFirst(const IrFunction& function) {
  for (const IrBlock& block : function.blocks) {
    for (int value : block.instructions) {
      const IrOp op = function.at(value).op;
      if (op == IrOp::kDropOnes || op == IrOp::kPermute) return value;
    }
  }
  return -1;
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

void ExpandBitLoops(IrFunction& function) {
  for (int value = FindFirst(function); value >= 0; value = FindFirst(function)) {
    ReplaceInstruction(function, value,
                       function.at(value).op == IrOp::kPermute ? Permute(function, value) : DropOnes(function, value));
  }
}

}  // namespace qgpu::lower
