// Which threads are where at the same time, and which values they share. What the threads of a warp do together may
// stand only where this is proven: where all threads of the thread block that have not exited come along, or at least
// all that share a machine warp.
//
// Threads part at a branch whose condition differs between them and are together again behind the branch's immediate
// post-dominator. Ways from which no common step can be reached any more do not count: who takes one exits.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/launch_spec.h"
#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// How far something is the same: in the whole thread block, in each machine warp, nowhere.
enum class Spread : uint8_t { kUniform = 0, kByWarp = 1, kDivergent = 2 };

struct Uniformity {
  std::vector<Spread> value;  // [value]
  std::vector<Spread> block;  // [block]: how far threads enter it together, the same number of times
  // [block]: lanes of a machine warp may enter it in different passes although all of them do, because some went around
  // a loop and others waited behind it. A barrier brings them together.
  std::vector<bool> skewed;
  // [block]: some common step (a barrier, a shuffle, ...) is here or can still be reached.
  std::vector<bool> common;
  // [block]: a thread may have exited before it, while others get here.
  std::vector<bool> exit_before;
  // Whether a thread may exit between blocks `from` and `to`, after being in the first one.
  bool MayExitBetween(int from, int to) const;

  std::vector<std::vector<bool>> reaches;  // [from][to], over one edge or more
  std::vector<int> exits;                  // where some threads leave `common` for good and others do not
};

Uniformity AnalyzeUniformity(const IrFunction& function, const FlowGraph& flow, const Dim3& block);

}  // namespace qgpu::lower
