// The two 32-bit halves of every 64-bit value of a function. Lower halves are always made; an upper half only where
// something asks for it, since most 64-bit values are addresses, which need none.
#pragma once

#include <map>
#include <vector>

#include "common/status.h"
#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/ir/ranges.h"
#include "lowering/ptx_to_blocks/narrow/pairs.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {

class Halves {
 public:
  // `ranges` of all values. Upper halves of parameters are added to `words`.
  Halves(IrFunction& function, const std::vector<Range>& ranges, std::vector<ParameterWord>* words)
      : f_(function), ranges_(ranges), words_(words) {}

  // Makes the lower halves of the values of type kI64 in `order`, a list in which every value but a phi comes after its
  // operands.
  absl::Status Make(const std::vector<int>& order);

  int Low(int value);   // of a 64-bit value; others are their own
  int High(int value);  // made by the first call
  Pair Both(int value) { return {Low(value), High(value)}; }

  // Adds a 32-bit instruction right after `after`, or behind the phis of its block if that is one.
  int InsertAfter(int after, IrOp op, std::vector<int> args);
  // The instruction that is the lower half, or the 64-bit one itself where another's value serves as that.
  int PlaceOf(int value) const;
  // Adds instructions in front of `before`.
  PairMath InFrontOf(int before);
  // What is needed for a parameter's upper half and could not be had, from High.
  const absl::Status& status() const { return status_; }

 private:
  bool Fits(int value) const;
  void Fill(int value);
  int MakeHigh(int value);
  int HighOfPhi(int value);
  int HighOfParameter(int value);
  int Choice(int value);
  PairMath Behind(int after);
  int Const32(uint32_t value) { return f_.Constant(Type::kI32, value); }

  IrFunction& f_;
  const std::vector<Range>& ranges_;
  std::vector<ParameterWord>* words_;
  std::map<int, int> low_, high_;
  std::map<int, int> choice_;  // of a minimum or maximum: the predicate that says it is the first operand
  absl::Status status_;
};

}  // namespace qgpu::lower
