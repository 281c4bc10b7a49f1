// Arithmetic on 64-bit values that are two 32-bit ones. A carry out of a sum is "the sum is below a term".
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

struct Pair {
  int low = -1, high = -1;
};

// Adds instructions through `emit`, which decides where they stand and returns their value.
class PairMath {
 public:
  using Emitter = std::function<int(IrInstruction)>;
  PairMath(IrFunction& function, Emitter emit) : f_(function), emit_(std::move(emit)) {}

  int Constant(uint32_t value) { return f_.Constant(Type::kI32, value); }
  int Op(IrOp op, std::vector<int> args) { return Op(op, Type::kI32, std::move(args)); }
  int Op(IrOp op, Type type, std::vector<int> args);
  int Test(Compare compare, int a, int b);
  int Logic(IrOp op, int p, int q);  // of predicates
  int Select(int predicate, int a, int b) { return Op(IrOp::kSelect, {predicate, a, b}); }
  Pair Select(int predicate, Pair a, Pair b);

  // The upper halves of results whose lower ones are `low`, or the plain operation on the lower halves.
  int SumHigh(Pair a, Pair b, int low);
  int DifferenceHigh(Pair a, Pair b);
  int ProductHigh(Pair a, Pair b);
  Pair Sum(Pair a, Pair b);
  Pair Difference(Pair a, Pair b);

  // Amounts of 64 and more shift everything out.
  int ShiftedLeftHigh(Pair a, int amount);
  Pair ShiftedLeft(Pair a, int amount);
  // `op` is kShr or kSar.
  int ShiftedRightLow(IrOp op, Pair a, int amount);
  Pair ShiftedRight(IrOp op, Pair a, int amount);

  // Between 64-bit values and pairs, for expansions before Narrow.
  Pair Split(int wide);
  int Join(Pair pair);

  int Compared(Compare compare, Pair a, Pair b);
  int LeadingZeros(Pair a);

 private:
  bool IsConstant(int value, uint32_t number) const { return f_.IsConstant(value) && f_.at(value).immediate == number; }
  // `yes` or `no` where the constant `base` is added to it.
  int ConstantPlus(int predicate, uint32_t base, uint32_t change);

  IrFunction& f_;
  const Emitter emit_;
};

// The comparison that orders the lower halves, and the one that decides where the upper halves differ.
Compare Unsigned(Compare compare);

}  // namespace qgpu::lower
