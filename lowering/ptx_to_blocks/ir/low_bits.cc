// The low bits of a value, as far as the launch tells them: buffers lie at known multiples.
#include <algorithm>

#include "lowering/ptx_to_blocks/ir/ranges.h"

namespace qgpu::lower {
namespace {

// How many additions deep an address is looked into: shared terms make the work double with each.
constexpr int kLowBitsDepth = 10;

// Of a value modulo `modulus`, a power of two.
int LowBitsWithin(const IrFunction& function, const LaunchFacts& facts, int value, uint64_t modulus, int depth) {
  if (modulus == 1) return 0;
  if (depth == 0) return -1;
  const IrInstruction& in = function.at(value);
  const auto of = [&](size_t arg) { return LowBitsWithin(function, facts, in.args[arg], modulus, depth - 1); };
  const auto scaled = [&](uint64_t factor) {  // args[0] * factor
    const uint64_t power = factor == 0 ? modulus : std::min(modulus, factor & (0 - factor));
    const int low = LowBitsWithin(function, facts, in.args[0], modulus / power, depth - 1);
    return low < 0 ? -1 : static_cast<int>(static_cast<uint64_t>(low) * factor % modulus);
  };
  switch (in.op) {
    case IrOp::kConst:
      return static_cast<int>(in.immediate % modulus);
    case IrOp::kSpecial: {
      const size_t word = in.immediate - kSpecialFirstParameter;
      return word < facts.alignment.size() && facts.alignment[word] >= modulus ? 0 : -1;
    }
    case IrOp::kShl:
      if (!function.IsConstant(in.args[1])) return -1;
      return scaled(function.at(in.args[1]).immediate >= 32 ? 0 : uint64_t{1} << function.at(in.args[1]).immediate);
    case IrOp::kMul:
      return function.IsConstant(in.args[1]) ? scaled(function.at(in.args[1]).immediate) : -1;
    case IrOp::kAdd: {
      const int a = of(0), b = a < 0 ? -1 : of(1);
      return b < 0 ? -1 : static_cast<int>(static_cast<uint64_t>(a + b) % modulus);
    }
    case IrOp::kPhi: {  // a walk in whole units
      Induction induction;
      if (!IsInduction(function, value, &induction) || induction.starts.size() != 1) return -1;
      const auto unit = static_cast<int64_t>(modulus);
      if (induction.step_low % unit != 0 || induction.step_high % unit != 0) return -1;
      if (induction.step_low != induction.step_high) return -1;
      const int start = induction.starts[0];
      return function.at(start).op == IrOp::kPhi ? -1 : LowBitsWithin(function, facts, start, modulus, depth - 1);
    }
    case IrOp::kTruncate:
    case IrOp::kSignExt:
    case IrOp::kZeroExt:
      return of(0);
    default:
      return -1;
  }
}

}  // namespace

int LowBits(const IrFunction& function, const LaunchFacts& facts, int value, uint32_t modulus) {
  return LowBitsWithin(function, facts, value, modulus, kLowBitsDepth);
}

}  // namespace qgpu::lower
