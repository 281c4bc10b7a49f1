// SimplifyFlow: branches that always go one way, blocks that nothing reaches, that could be one, or that are empty.
#include <algorithm>

#include "lowering/ptx_to_blocks/simplify/simplify.h"

namespace qgpu::lower {
namespace {

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

bool SimplifyFlow(IrFunction& function) {
  bool changed = FoldBranches(function, AnalyzeFlow(function));
  changed |= DropUnreachable(function);
  while (JoinBlocks(function) || BypassEmptyBlocks(function)) {
    DropUnreachable(function);
    changed = true;
  }
  return changed;
}

}  // namespace qgpu::lower
