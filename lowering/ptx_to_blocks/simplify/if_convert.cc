#include "lowering/ptx_to_blocks/simplify/if_convert.h"

#include <algorithm>

namespace qgpu::lower {
namespace {

// Whether `side` can be run by lanes that would not enter it: small, entered from `head` only, without a phi, a
// barrier, an access that is guarded already, or what lanes do one by one.
bool IsShortSide(const IrFunction& function, const FlowGraph& flow, int side, int head) {
  const IrBlock& block = function.blocks[side];
  if (flow.predecessors[side] != std::vector<int>{head} || block.end.kind != TerminatorKind::kJump) return false;
  if (block.serial) return false;
  if (static_cast<int>(block.instructions.size()) > kMaxPredicatedInstructions) return false;
  return std::all_of(block.instructions.begin(), block.instructions.end(), [&](int value) {
    return function.at(value).op != IrOp::kPhi && function.at(value).guard < 0 && !IsConvergent(function.at(value).op);
  });
}

class Converter {
 public:
  explicit Converter(IrFunction& function) : f_(function), flow_(AnalyzeFlow(function)) {}

  // One branch at a time: the flow graph is of the function before it.
  bool Run() {
    for (int head : flow_.order) {
      const Terminator end = f_.blocks[head].end;
      if (end.kind != TerminatorKind::kBranch) continue;
      const bool short_taken = IsShortSide(f_, flow_, end.target, head);
      const bool short_other = IsShortSide(f_, flow_, end.other, head);
      const int after_taken = short_taken ? f_.blocks[end.target].end.target : -1;
      const int after_other = short_other ? f_.blocks[end.other].end.target : -1;
      if (short_taken && after_taken == end.other && after_taken != head) {
        return Convert(head, end.target, -1, end.other);
      }
      if (short_other && after_other == end.target && after_other != head) {
        return Convert(head, -1, end.other, end.target);
      }
      if (short_taken && short_other && after_taken == after_other && after_taken != head) {
        return Convert(head, end.target, end.other, after_taken);
      }
    }
    return false;
  }

 private:
  bool Convert(int head, int taken, int other, int join) {
    const Terminator end = f_.blocks[head].end;
    for (int side : {taken, other}) {
      if (side < 0) continue;
      for (int value : f_.blocks[side].instructions) {
        IrInstruction& in = f_.at(value);
        if (in.op == IrOp::kLoad || in.op == IrOp::kStore) {
          in.guard = end.condition;
          in.negate = end.negate != (side == other);
        }
        in.block = head;
        f_.blocks[head].instructions.push_back(value);
      }
      f_.blocks[side].instructions.clear();
    }
    const int from_taken = taken < 0 ? head : taken, from_other = other < 0 ? head : other;
    for (int value : f_.blocks[join].instructions) {
      if (f_.at(value).op != IrOp::kPhi) break;
      JoinPhi(value, head, from_taken, from_other, end);
    }
    f_.blocks[head].end = {};
    f_.blocks[head].end.kind = TerminatorKind::kJump;
    f_.blocks[head].end.target = join;
    f_.blocks[head].end.origin = end.origin;
    return true;
  }

  // The phi's two operands become one selection in `head`.
  void JoinPhi(int phi, int head, int from_taken, int from_other, const Terminator& end) {
    const IrInstruction before = f_.at(phi);
    IrInstruction select;
    select.op = IrOp::kSelect;
    select.type = before.type;
    select.origin = end.origin;
    select.args = {end.condition, -1, -1};
    std::vector<int> args, blocks;
    for (size_t i = 0; i < before.args.size(); ++i) {
      const int from = before.phi_blocks[i];
      if (from == from_taken) {
        select.args[end.negate ? 2 : 1] = before.args[i];
      } else if (from == from_other) {
        select.args[end.negate ? 1 : 2] = before.args[i];
      } else {
        args.push_back(before.args[i]);
        blocks.push_back(from);
      }
    }
    args.push_back(select.args[1] == select.args[2] ? select.args[1] : f_.Add(head, select));
    blocks.push_back(head);
    f_.at(phi).args = std::move(args);
    f_.at(phi).phi_blocks = std::move(blocks);
  }

  IrFunction& f_;
  const FlowGraph flow_;
};

}  // namespace

bool ConvertShortBranches(IrFunction& function) { return Converter(function).Run(); }

}  // namespace qgpu::lower
