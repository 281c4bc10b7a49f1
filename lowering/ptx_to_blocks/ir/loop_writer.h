// Puts a loop of one block where an instruction stands, for expansions: what comes before it, the turns, and what
// follows them in front of the instruction.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"
#include "lowering/ptx_to_blocks/narrow/pairs.h"

namespace qgpu::lower {

class LoopWriter {
 public:
  LoopWriter(IrFunction& function, int instruction)
      : f_(function),
        instruction_(instruction),
        origin_(function.at(instruction).origin),
        entry_(function.at(instruction).block) {
    SplitBefore(f_, instruction);
    loop_ = static_cast<int>(f_.blocks.size());
    f_.blocks.emplace_back();
    Terminator& end = f_.blocks[loop_].end;
    end.kind = TerminatorKind::kBranch;
    end.origin = origin_;
    end.target = loop_;
    end.other = f_.blocks[entry_].end.target;
    f_.blocks[entry_].end.target = loop_;
  }

  PairMath Before() { return AtTheEndOf(entry_); }
  PairMath Inside() { return AtTheEndOf(loop_); }
  PairMath After() {
    return PairMath(f_, [this](IrInstruction in) {
      in.origin = origin_;
      const int block = f_.at(instruction_).block;
      const std::vector<int>& list = f_.blocks[block].instructions;
      const auto at = std::find(list.begin(), list.end(), instruction_) - list.begin();
      return f_.Add(block, std::move(in), static_cast<int>(at));
    });
  }

  // A variable of the loop; all of them before anything else is written Inside.
  int Variable(int start) {
    IrInstruction phi;
    phi.op = IrOp::kPhi;
    phi.type = f_.at(start).type;
    phi.args = {start};
    phi.phi_blocks = {entry_};
    phi.origin = origin_;
    return f_.Add(loop_, std::move(phi));
  }
  Pair Variable(Pair start) {
    const int low = Variable(start.low);
    return {low, Variable(start.high)};
  }
  void Next(int variable, int value) {
    f_.at(variable).args.push_back(value);
    f_.at(variable).phi_blocks.push_back(loop_);
  }
  void Next(Pair variable, Pair value) {
    Next(variable.low, value.low);
    Next(variable.high, value.high);
  }
  // There is another turn where `predicate`.
  void RepeatWhile(int predicate) { f_.blocks[loop_].end.condition = predicate; }

 private:
  PairMath AtTheEndOf(int block) {
    return PairMath(f_, [this, block](IrInstruction in) {
      in.origin = origin_;
      return f_.Add(block, std::move(in));
    });
  }

  IrFunction& f_;
  const int instruction_, origin_, entry_;
  int loop_ = -1;
};

// Uses of the instruction become `value`; the instruction goes.
inline void ReplaceInstruction(IrFunction& function, int instruction, int value) {
  std::vector<int> replacement(function.instructions.size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<int>(i);
  replacement[instruction] = value;
  function.ReplaceUses(replacement);
  std::erase(function.blocks[function.at(instruction).block].instructions, instruction);
  function.at(instruction).block = -1;
}

}  // namespace qgpu::lower
