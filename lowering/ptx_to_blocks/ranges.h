// Which numbers a value can be, as signed intervals. The bounds come from the launch: its shape, its arguments, and its
// token budget, since every turn of a loop costs at least one token. They serve proofs only: no argument's value ever
// reaches the code.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/launch_spec.h"
#include "lowering/ptx_to_blocks/ir.h"

namespace qgpu::lower {

// low > high: no value (unreachable). 32-bit values are taken as signed.
struct Range {
  int64_t low = 1, high = 0;
  bool empty() const { return low > high; }
  bool Within(int64_t from, int64_t to) const { return low >= from && high <= to; }
  bool operator==(const Range&) const = default;
};

struct LaunchFacts {
  Dim3 grid, block;
  std::vector<uint64_t> words;  // value of each parameter word, with the following word above it where there is one
  int64_t token_budget = 0;
  // Of each parameter word: it is the low half of a buffer's address, a multiple of this power of two; 0: it is not.
  std::vector<uint32_t> alignment;
};

// A value modulo a power of two, or -1 where that is not known.
int LowBits(const IrFunction& function, const LaunchFacts& facts, int value, uint32_t modulus = 4);

std::vector<Range> AnalyzeRanges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts);

// A phi that a constant is added to in every turn: args that are not `phi + constant` are where it starts.
struct Induction {
  std::vector<int> starts;
  int64_t step_low = 0, step_high = 0;  // smallest and greatest constant that a turn adds
};
// False where `phi` is none.
bool IsInduction(const IrFunction& function, int phi, Induction* induction);

}  // namespace qgpu::lower
