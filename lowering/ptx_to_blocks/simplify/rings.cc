#include "lowering/ptx_to_blocks/simplify/rings.h"

#include <map>

#include "machine/isa/isa.h"

namespace qgpu::lower {
namespace {

int Copy(IrFunction& function, int block, int value) {
  IrInstruction copy;
  copy.op = IrOp::kAdd;
  copy.type = Type::kI32;
  copy.args = {value, function.Constant(Type::kI32, 0)};
  copy.origin = function.blocks[block].end.origin;
  return function.Add(block, std::move(copy));
}

// [phi]: the operand that comes from `from`, where that is another phi of the same block.
std::map<int, int> Rotations(const IrFunction& function, int block, int from) {
  std::map<int, int> next;
  for (int phi : function.blocks[block].instructions) {
    const IrInstruction& in = function.at(phi);
    if (in.op != IrOp::kPhi) break;
    for (size_t i = 0; i < in.args.size(); ++i) {
      const IrInstruction& arg = function.at(in.args[i]);
      if (in.phi_blocks[i] == from && in.args[i] != phi && arg.op == IrOp::kPhi && arg.block == block) {
        next[phi] = in.args[i];
      }
    }
  }
  return next;
}

void ReplaceOperand(IrFunction& function, int phi, int from, int value) {
  IrInstruction& in = function.at(phi);
  for (size_t i = 0; i < in.args.size(); ++i) {
    if (in.phi_blocks[i] == from) in.args[i] = value;
  }
}

size_t RingThrough(const std::map<int, int>& next, int start) {
  size_t length = 1;
  for (auto at = next.find(start); at != next.end() && length <= next.size(); at = next.find(at->second), ++length) {
    if (at->second == start) return length;
  }
  return 0;
}

}  // namespace

void BreakRings(IrFunction& function, RingsToBreak which) {
  const FlowGraph flow = AnalyzeFlow(function);
  for (int block : flow.order) {
    for (int from : flow.predecessors[block]) {
      std::map<int, int> next = Rotations(function, block, from);
      const std::map<int, int> all = next;
      std::map<int, int> copies;
      for (const auto& [phi, source] : all) {
        if (which == RingsToBreak::kOnce && RingThrough(next, phi) <= kSlots) continue;
        if (copies.count(source) == 0) copies[source] = Copy(function, from, source);
        ReplaceOperand(function, phi, from, copies[source]);
        next.erase(phi);
      }
    }
  }
}

}  // namespace qgpu::lower
