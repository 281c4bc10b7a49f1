// How values meet at joins without SSA: every phi becomes a variable (later a register), written at the end of each
// predecessor. Phis that are never live at the same time share a variable, so that most of those writes need no
// instruction: the slot that computes the value writes the variable.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/pack/select.h"

namespace qgpu::lower {

struct PhiPlan {
  std::vector<int> variable;  // [value] of phis; -1: not a phi
  int variables = 0;
  std::vector<std::map<int, int>> moves;  // [block]: variable <- value, all at once, by the end of the block
  // [value]: the variable that the slot computing the value may write directly (if the block's order allows); -1: none.
  std::vector<int> fused;

  // [block]: variables that were written early, in a block before, and must keep their value until the block's end.
  std::vector<std::set<int>> carried;

  // True when variable `v` holds something that `block` or what follows it reads.
  bool LiveInto(int block, int v, const IrFunction& function, const Liveness& live) const;
};

// Splits edges where a write for one successor would destroy what the other still reads. Call before PlanPhis.
// The new blocks get empty selections.
void SplitConflictingEdges(IrFunction& function, Selection& selection);

PhiPlan PlanPhis(const IrFunction& function, const FlowGraph& flow, const Liveness& live);

}  // namespace qgpu::lower
